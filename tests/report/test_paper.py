import pytest

from reslab.report.paper import is_same_data, published_for


@pytest.mark.parametrize(
    ("depth", "error"),
    [(20, 8.75), (32, 7.51), (44, 7.17), (56, 6.97), (110, 6.43), (1202, 7.93)],
)
def test_residual_nets_have_the_errors_of_table_6(depth, error):
    assert float(published_for("resnet", depth).test_error) == error


@pytest.mark.parametrize(
    ("kind", "depth", "error"),
    [("plain", 18, 27.94), ("plain", 34, 28.54), ("resnet", 18, 27.88), ("resnet", 34, 25.03)],
)
def test_imagenet_nets_have_the_errors_of_table_2(kind, depth, error):
    assert float(published_for(kind, depth).test_error) == error


def test_what_the_paper_lacks_is_none():
    assert published_for("plain", 26) is None


def test_other_data_than_the_papers_is_told_apart():
    published = [published_for("plain", 20)]
    assert is_same_data("CIFAR-10", published)
    assert not is_same_data("cifar100", published)
    assert not is_same_data("digits", published)
