import csv
import json
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from reslab import files
from reslab.errors import DiskError
from reslab.records import StudyResult, from_json
from reslab.report import write_report
from reslab.report.page import render_study

from .synthetic import arm, claim, study

LOADS = {"src", "href", "srcset", "data", "poster", "action", "xlink:href", "background"}


class Page(HTMLParser):
    """The text a reader sees, and every address the page would load."""

    def __init__(self, html):
        super().__init__()
        self.loads, self.tags, self.words, self.open = [], [], [], []
        self.feed(html)
        self.text = " ".join(" ".join(self.words).replace("\N{NO-BREAK SPACE}", " ").split())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)
        self.loads += [value for name, value in attrs if name in LOADS]

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.words.append(data)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return write_report(study(seeds=3), tmp_path_factory.mktemp("report"))


def test_all_files_are_written_and_nothing_else(paths):
    folder = paths.page.parent
    assert {path.name for path in folder.iterdir()} == {
        "index.html",
        "figure.png",
        "figure.svg",
        "results.csv",
        "curves.csv",
        "result.json",
    }
    assert paths.png.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in paths.svg.read_text(encoding="utf-8")


def test_the_json_is_the_record(paths):
    assert from_json(StudyResult, files.read_json(paths.json)) == study(seeds=3)


def test_results_csv_has_a_row_a_training(paths):
    with paths.csv.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    expected = study(seeds=3).arms
    assert len(rows) == 12
    for row, run in zip(rows, expected, strict=True):
        assert (row["name"], int(row["seed"]), int(row["depth"])) == (run.name, run.seed, run.depth)
        assert float(row["final_train_error"]) == run.final_train_error
        assert float(row["final_test_error"]) == run.final_test_error


def test_curves_csv_has_a_row_a_point(paths):
    with paths.curves.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    points = [(run, point) for run in study(seeds=3).arms for point in run.curve]
    assert len(rows) == len(points)
    for row, (run, point) in zip(rows, points, strict=True):
        assert (row["name"], int(row["iteration"])) == (run.name, point.iteration)
        assert float(row["train_error"]) == point.train_error
        assert row["test_loss"] == ""


def test_the_page_loads_nothing(paths):
    page = Page(paths.page.read_text(encoding="utf-8"))
    assert page.loads
    assert all(value.startswith(("#", "data:")) for value in page.loads)
    policy = next(a["content"] for t, a in page.tags if t == "meta" and "http-equiv" in a)
    assert policy.startswith("default-src 'none'")


def test_writing_twice_gives_the_same_bytes(paths, tmp_path):
    again = write_report(study(seeds=3), tmp_path)
    for name in ("page", "png", "svg", "csv", "json"):
        assert getattr(again, name).read_bytes() == getattr(paths, name).read_bytes()


def test_the_verdict_comes_first_and_each_claim_says_its_own():
    page = Page(render_study(study())).text
    lead = "On digits, the deeper plain net trains worse: 70.00 % against 0.30 %."
    places = [page.index(lead), *(page.index(f"Statement of {key}.") for key in "abcd")]
    assert places == sorted(places)
    for key, verdict in zip(
        "abcd", ("holds", "does not hold", "inside the noise", "not measured"), strict=True
    ):
        assert f"Claim {key} {verdict} Statement of {key}." in page
        assert f"Rule of {key}." in page
    assert "mean difference 69.70" in page


def test_a_verdict_has_its_own_icon():
    page = Page(render_study(study()))
    icons = {a["href"] for t, a in page.tags if t == "use"}
    assert icons == {
        "#icon-holds",
        "#icon-does-not-hold",
        "#icon-inside-the-noise",
        "#icon-not-measured",
    }
    symbols = {"#" + a["id"] for t, a in page.tags if t == "symbol"}
    assert icons == symbols


def test_a_study_that_fails_reads_so():
    verdict = "On digits, the deeper plain net trains better: no degradation."
    result = study(verdict=verdict, claims=(claim("a", "does not hold"),))
    page = Page(render_study(result)).text
    assert verdict in page
    assert "Of 1 claim 1 does not hold" in page


def test_the_table_has_means_spreads_and_the_papers_figures():
    page = Page(render_study(study(seeds=3))).text
    assert "resnet-20 0.00 ± 0.00 2.00 ± 0.00 269,434 3 11 s 8.75" in page
    assert "The paper’s figures are for CIFAR-10; this study used digits." in page


def test_on_the_papers_data_there_is_no_warning():
    page = Page(render_study(study(data="cifar10"))).text
    assert "Compare the direction" not in page


def test_recipe_environment_and_command_are_there():
    page = Page(render_study(study())).text
    for words in ("reslab study degradation --seeds 3", "milestones [0.5, 0.75]", "threads 2"):
        assert words in page


HOSTILE = "\"'><script>alert(1)</script>{{ 7*7 }}</title>"


def test_hostile_text_stays_text():
    run = replace(arm("plain-20"), name=HOSTILE, kind=HOSTILE, model=HOSTILE)
    result = study(
        title=HOSTILE,
        verdict=HOSTILE,
        command=HOSTILE,
        data=HOSTILE,
        paper=HOSTILE,
        arms=(run,),
        claims=(claim("a", HOSTILE, title=HOSTILE, figures={HOSTILE: 1.0}),),
        recipe={HOSTILE: HOSTILE},
        environment={HOSTILE: [HOSTILE]},
        created=HOSTILE,
    )
    html = render_study(result)
    plain = Page(render_study(study()))
    assert "<script>alert" not in html
    assert len([t for t, _ in Page(html).tags if t == "script"]) == len(
        [t for t, _ in plain.tags if t == "script"]
    )
    assert HOSTILE in Page(html).text


def test_hostile_names_do_not_stop_the_still_figure(tmp_path):
    runs = (
        replace(arm("plain-20"), name="$\\frac{"),
        replace(arm("plain-56"), name="_hidden \N{CJK UNIFIED IDEOGRAPH-5B66}"),
    )
    paths = write_report(study(arms=runs, data="a/$b_{/c"), tmp_path)
    assert paths.png.stat().st_size > 10_000


@pytest.mark.parametrize(
    "changes",
    [
        {"claims": ()},
        {"deepened": ()},
        {"names": ("plain-20", "plain-56", "resnet-56")},
        {"names": ("plain-20",)},
        {"names": ("resnet-110", "resnet-1202")},
        {"arms": ()},
        {"recipe": {}, "environment": {}},
        {"verdict": ""},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_partial_study_has_a_page(changes, tmp_path):
    html = write_report(study(**changes), tmp_path).page.read_text(encoding="utf-8")
    page = Page(html)
    targets = {a["id"] for _, a in page.tags if "id" in a}
    anchors = {a["href"][1:] for t, a in page.tags if t == "a"}
    assert anchors <= targets
    assert "nan" not in page.text.lower().split()
    assert "None" not in page.text


def test_numbers_that_are_not_finite_are_dashes():
    run = replace(arm("plain-56"), final_train_error=float("nan"), seconds=float("inf"))
    run = replace(run, curve=(replace(run.curve[0], test_error=float("nan")), *run.curve[1:]))
    html = render_study(study(arms=(run,), claims=(claim("a", "holds", figures={"x": 1e400}),)))
    assert "plain-56 – 72.00 852,730 1 – –" in Page(html).text
    data = html.split('id="figures">')[1].split("</script>")[0]
    json.loads(data, parse_constant=pytest.fail)


def test_a_full_disk_leaves_the_old_page_whole(tmp_path, monkeypatch):
    page = write_report(study(), tmp_path).page
    before = page.read_bytes()

    def refuse(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("reslab.files.os.fsync", refuse)
    with pytest.raises(DiskError, match="No space left"):
        write_report(study(seeds=3), tmp_path)
    assert page.read_bytes() == before
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".tmp")]


def test_tables_have_captions_and_scopes():
    page = Page(render_study(study()))
    tags = [tag for tag, _ in page.tags]
    assert tags.count("table") == tags.count("caption") > 3
    assert all("scope" in attributes for tag, attributes in page.tags if tag == "th")
