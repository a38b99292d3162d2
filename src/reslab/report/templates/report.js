// Draws the report's figures and keeps them right: theme, legend, variants, paper. No framework.
// A figure is plain data; each trace's meta says its series and role, and the page's style sheet
// holds the colours, so a change of theme is one more drawing of the same data.
(() => {
  "use strict";
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const hidden = new Map(); // panel -> legend groups that are switched off
  const plots = [...document.querySelectorAll(".plot")];
  const coarse = matchMedia("(pointer: coarse)");

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function theme() {
    const count = Number(style("--series-count"));
    return {
      series: (index) => style(`--series-${index % count}`),
      text: style("--text-soft"),
      strong: style("--text"),
      grid: style("--rule"),
      axis: style("--rule-strong"),
      ground: style("--raised"),
      font: getComputedStyle(document.body).fontFamily,
    };
  }

  function paint(trace, look, off) {
    const colour = look.series(trace.meta.series);
    const painted = { ...trace, visible: !off.has(trace.legendgroup) };
    if (trace.meta.role === "band") painted.fillcolor = colour;
    if (trace.line) painted.line = { ...trace.line, color: colour };
    if (trace.marker) painted.marker = { ...trace.marker, color: colour };
    return painted;
  }

  function axis(given, look) {
    return {
      gridcolor: look.grid, linecolor: look.axis, zerolinecolor: look.axis,
      showline: false, zerolinewidth: 1, ...given,
      // plotly enlarges the labels of powers by a quarter.
      tickfont: { color: look.text, size: given.type === "log" ? 10 : 12.5 },
      title: { ...given.title, font: { color: look.text, size: 12.5 } },
    };
  }

  function layout(given, look, paper) {
    return {
      ...given,
      autosize: !paper,
      width: paper ? paper.width : undefined,
      height: paper ? paper.height : undefined,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: look.font, size: 12.5, color: look.text },
      xaxis: { ...axis(given.xaxis, look), showgrid: given.hovermode === "closest" },
      yaxis: axis(given.yaxis, look),
      annotations: (given.annotations ?? []).map(
        (note) => ({ ...note, font: { color: look.strong, size: 13 } })),
      hoverlabel: {
        bgcolor: look.ground, bordercolor: look.axis, namelength: -1,
        font: { color: look.strong, family: look.font, size: 12.5 },
      },
      dragmode: coarse.matches ? false : "zoom",
      transition: { duration: 0 },
    };
  }

  function draw(plot, paper = null) {
    const figure = figures[plot.dataset.panel][plot.dataset.variant];
    const look = theme();
    const off = hidden.get(plot.dataset.panel) ?? new Set();
    const traces = figure.data.map((trace) => paint(trace, look, off));
    const shown = { ...layout(figure.layout, look, paper), uirevision: plot.dataset.variant };
    return Plotly.react(plot, traces, shown, { displayModeBar: false, responsive: !paper });
  }

  const drawAll = () => plots.forEach((plot) => draw(plot));

  function toggle(button) {
    const { panel, group } = button.dataset;
    const off = hidden.get(panel) ?? new Set();
    if (!off.delete(group)) off.add(group);
    hidden.set(panel, off);
    button.setAttribute("aria-pressed", String(!off.has(group)));
    plots.filter((plot) => plot.dataset.panel === panel).forEach((plot) => draw(plot));
  }

  function choose(button) {
    const chart = button.closest("[data-chart]");
    for (const other of chart.querySelectorAll(".switch button")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
    for (const plot of chart.querySelectorAll(".plot")) {
      plot.dataset.variant = button.dataset.variant;
      draw(plot);
    }
  }

  async function copy(button) {
    const said = button.parentElement.querySelector(".said");
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      said.textContent = "Copied";
    } catch {
      // Some browsers give pages from disk no clipboard: select the text, so one key copies it.
      getSelection().selectAllChildren(button.parentElement.querySelector("code"));
      said.textContent = "Selected: copy with the keyboard";
    }
    setTimeout(() => { said.textContent = ""; }, 4000);
  }

  function onPaper(on) {
    document.documentElement.classList.toggle("on-paper", on);
    // Sheets are narrower than most screens, and nothing is laid out anew before they are printed.
    plots.forEach((plot) => draw(plot, on ? { width: 620, height: plot.clientHeight } : null));
  }

  for (const button of document.querySelectorAll(".key")) {
    button.addEventListener("click", () => toggle(button));
  }
  for (const button of document.querySelectorAll(".switch button")) {
    button.addEventListener("click", () => choose(button));
  }
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", () => copy(button));
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll());
  addEventListener("beforeprint", () => onPaper(true));
  addEventListener("afterprint", () => onPaper(false));
  drawAll();
})();
