import numpy as np
import pytest
import torch

from evigrad.data import DataError, DataReportError, load, whole

RANDOM = np.random.default_rng(0)


def arrays(count: int = 40) -> dict[str, np.ndarray]:
    return {
        "y": np.array(["cat", "ant", "bee", "ant"] * (count // 4)),
        "gist": RANDOM.normal(size=(count, 3)),
        "picture": RANDOM.integers(0, 256, (count, 1, 2, 2)).astype(np.uint8),
        "comment": np.array(["two words"] * count),
        "age": np.arange(count),
    }


def save(tmp_path, folder: bool = False, **changes):
    content = {key: value for key, value in {**arrays(), **changes}.items() if value is not None}
    if not folder:
        np.savez(tmp_path / "mine.npz", **content)
        return tmp_path / "mine.npz"
    (tmp_path / "mine").mkdir()
    for key, value in content.items():
        np.save(tmp_path / "mine" / f"{key}.npy", value)
    return tmp_path / "mine"


@pytest.mark.parametrize("folder", [False, True])
def test_npz_and_folder(tmp_path, folder):
    path = save(tmp_path, folder)
    splits = load("views", path=path, scaling="none")
    assert set(splits.train.modalities) == {"gist", "picture"}
    assert splits.train.classes == ("ant", "bee", "cat")
    assert splits.info.name == "mine"
    everything = torch.cat([whole(part).inputs["gist"] for part in splits.parts().values()])
    original = torch.from_numpy(RANDOM_GIST(path)).float()
    assert torch.equal(everything.sort(0).values, original.sort(0).values)


def RANDOM_GIST(path) -> np.ndarray:  # noqa: N802
    return np.load(path / "gist.npy") if path.is_dir() else np.load(path)["gist"]


def test_views_can_be_chosen_and_texts_become_tokens(tmp_path):
    splits = load("views", path=save(tmp_path), views=["comment", "gist"], text_length=4)
    assert splits.train.modalities == {"comment": (4,), "gist": (3,)}
    tokens = splits.train[0].inputs["comment"]
    assert tokens.dtype == torch.long
    assert (tokens > 0).tolist() == [True, True, False, False]


def test_numbered_views_and_token_views(tmp_path):
    content = {"y": np.arange(40) % 2, "x0": np.ones((40, 2)), "x1": np.arange(80).reshape(40, 2)}
    np.savez(tmp_path / "n.npz", **content, view_names=np.array(["left", "right"]), token_views=np.array(["right"]))
    splits = load("views", path=tmp_path / "n.npz")
    assert list(splits.train.modalities) == ["left", "right"]
    assert splits.train[0].inputs["right"].dtype == torch.long
    assert splits.train[0].inputs["left"].dtype == torch.float32


def test_a_given_split_and_groups(tmp_path):
    path = save(tmp_path, train_idx=np.arange(30), test_idx=np.arange(30, 40), group=np.arange(40) // 5)
    splits = load("views", path=path, scaling="none")
    assert torch.equal(whole(splits.test).inputs["gist"], torch.from_numpy(RANDOM_GIST(path)[30:]).float())
    assert (len(splits.train), len(splits.validation)) == (20, 10)
    assert "whole groups" in splits.test.protocol
    assert splits.test.protocol.startswith("mine, test: test rows as given")


def test_rows_of_nan_and_marked_rows_are_absent(tmp_path):
    gist = arrays()["gist"]
    gist[::2] = np.nan
    path = save(
        tmp_path, gist=gist, present_picture=np.arange(40) % 4 != 1, train_idx=np.arange(30), test_idx=np.arange(30, 40)
    )
    batch = whole(load("views", path=path).test)
    assert batch.present["gist"].tolist() == [False, True] * 5
    assert batch.present["picture"].tolist() == [(row % 4) != 1 for row in range(30, 40)]
    assert batch.inputs["gist"][::2].eq(0).all()
    assert batch.inputs["picture"][~batch.present["picture"]].eq(0).all()


def test_every_broken_value_is_named_in_one_report(tmp_path):
    gist = arrays()["gist"]
    gist[3, 1], gist[7, 2] = np.nan, np.inf
    path = save(tmp_path, gist=gist, other=np.ones((39, 2)), dates=np.zeros((40, 2), dtype="datetime64[s]"))
    with pytest.raises(DataReportError) as caught:
        load("views", path=path)
    assert str(caught.value) == (
        "mine.npz: 4 problems\n"
        "  view 'gist', row 3, column 1: nan; mark an absent row by NaN throughout\n"
        "  view 'gist', row 7, column 2: inf; mark an absent row by NaN throughout\n"
        "  view 'other' has shape (39, 2), but 'y' has 40 rows; one row a sample\n"
        "  view 'dates' has type datetime64[s]; give numbers"
    )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"y": None}, "there is no array 'y' with the labels"),
        ({"y": np.ones((40, 2))}, r"'y' has shape \(40, 2\) and type float64; give one whole number or text a row"),
        (
            {"y": np.full(40, 7), "class_names": np.array(["a", "b"])},
            r"'y', row 0: label 7 is not in 0..1; count labels from 0",
        ),
        ({"y": np.full(40, -1)}, "'y', row 0: label -1 is not in"),
        ({"y": np.arange(40) + 10**9}, "'y', row 39: label 1000000039 with 40 rows; count labels from 0"),
        ({"y": np.full(40, 2**63 + 1, dtype=np.uint64)}, "'y', row 0: label 9223372036854775809 with 40 rows"),
        ({"y": np.array(["a", ""] * 20)}, "'y', row 1: the label is empty; give a text or remove the row"),
        (
            {"y": np.array(["a", "b"] * 20), "class_names": np.array(["a", "c"])},
            "'y', row 1: label 'b' is not in 'class_names'; name it there",
        ),
        (
            {"y": np.zeros(40, dtype=int), "class_names": np.array(["a", "b", "a"])},
            "'class_names' has 'a' twice; give each class a name of its own",
        ),
        ({"y": np.zeros(0, dtype=int)}, "'y' has no row; give one label a sample"),
        ({"y": np.zeros(40, dtype=int)}, "'y' has the one class '0'; give rows of at least two"),
        ({"group": np.arange(10)}, "mine.npz: 'group' has 10 rows, the labels 40; give one group a row"),
        ({"group": np.zeros(40)}, "mine.npz: test part: groups: there is only one group"),
        (
            {"train_idx": np.arange(30)},
            r"needs rows for train and test .* it has \['train'\]; name them, or say split='se",
        ),
        (
            {"train_idx": np.arange(40) < 30, "test_idx": np.arange(40) >= 30},
            r"'train_idx' has shape \(40,\) and type bool; give row numbers from 0, in one axis",
        ),
        (
            {"train_idx": np.arange(30)[None], "test_idx": np.arange(30, 40)},
            r"'train_idx' has shape \(1, 30\) and type int64; give row numbers from 0, in one axis",
        ),
        ({"train_idx": np.arange(30) + 0.5, "test_idx": np.arange(31, 40)}, "'train_idx' holds 0.5; give row numbers"),
        ({"train_idx": np.arange(30), "test_idx": np.arange(29, 40)}, "row 29 is in the train and the test part; give"),
        (
            {"train_idx": [0, 1, 1], "test_idx": [2]},
            "row 1 is twice in the train part; give every row to one part, once",
        ),
        ({"gist": np.zeros((40, 0))}, r"view 'gist' has shape \(40, 0\), so no value; give at least one number a row"),
        ({"gist": np.full((40, 3), np.nan)}, "view 'gist' is absent in every row; leave it out"),
        ({"gist": np.full((40, 3), 1e300)}, "view 'gist', row 0, column 0: inf"),
        (
            {"gist": np.full((40, 3), -1), "token_views": np.array("gist")},
            "token view 'gist' has type int64 and smallest value -1; give whole numbers from 0",
        ),
        (
            {"gist": np.full((40, 3), 0.5), "token_views": np.array(["gist"])},
            "token view 'gist' has type float64 and smallest value 0.5; give whole numbers from 0",
        ),
        (
            {"present_gits": np.ones(40, dtype=bool)},
            "array 'present_gits' marks the rows of a view 'gits', which is not there; rename one of them",
        ),
        (
            {"x0": np.ones((40, 2)), "x1": np.ones((40, 2)), "view_names": np.array(["a", "a"])},
            r"'view_names' are \['a', 'a'\]; give each view a name of its own",
        ),
        ({"gist": None, "picture": None}, "there is no view; give at least one array with two axes"),
        ({"view_names": np.array(["a"])}, "'view_names' calls view 'a', but there is no array 'x0'"),
        ({"present_gist": np.ones(3)}, r"'present_gist' has shape \(3,\) and type float64; give \[N\] booleans"),
    ],
)
def test_errors(tmp_path, changes, text):
    with pytest.raises(DataError, match=text):
        load("views", path=save(tmp_path, **changes))


def test_unknown_view(tmp_path):
    with pytest.raises(DataError, match=r"unknown view in mine.npz 'gits'. Did you mean 'gist'\?"):
        load("views", path=save(tmp_path), views=["gits"])


def test_nothing_is_unpickled_and_broken_files_are_named(tmp_path):
    path = save(tmp_path, evil=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataReportError, match=r"mine.npz: not a readable npz or npy file without objects"):
        load("views", path=path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataReportError, match=r"mine.npz: not a readable npz or npy file"):
        load("views", path=path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataReportError, match="the folder has no npy file"):
        load("views", path=tmp_path / "empty")
    with pytest.raises(DataError, match="no such file or folder; give an npz file"):
        load("views", path=tmp_path / "gone.npz")
    folder = save(tmp_path, folder=True)
    (folder / "gist.npy").write_bytes(b"")
    (folder / "picture.npy").write_bytes(b"junk")
    with pytest.raises(DataReportError, match=r"2 problems\n  gist.npy: .*\n  picture.npy: "):
        load("views", path=folder)


def test_a_file_with_one_damaged_byte_is_named_wherever_the_byte_lies(tmp_path):
    np.savez_compressed(tmp_path / "mine.npz", y=np.arange(12) % 2, gist=np.arange(24.0).reshape(12, 2))
    whole_file = (tmp_path / "mine.npz").read_bytes()
    refused = 0
    for at in range(0, len(whole_file), 5):
        damaged = bytearray(whole_file)
        damaged[at] ^= 0xFF
        (tmp_path / "mine.npz").write_bytes(damaged)
        try:
            load("views", path=tmp_path / "mine.npz")
        except DataError:  # anything else that it raises fails the test
            refused += 1
    assert refused > 50


def test_text_labels_follow_the_given_order_of_classes(tmp_path):
    splits = load("views", path=save(tmp_path, y=np.array(["yes", "no"] * 20), class_names=np.array(["yes", "no"])))
    assert splits.train.classes == ("yes", "no")
    assert load("views", path=save(tmp_path, y=np.array(["yes", "no"] * 20))).train.classes == ("no", "yes")


def test_texts_stored_as_bytes_are_the_same_texts(tmp_path):
    first = load("views", path=save(tmp_path), views=["comment"])
    plain = {key: arrays()[key].astype("S") for key in ("y", "comment")}
    second = load("views", path=save(tmp_path, **plain), views=["comment"])
    assert first.train.classes == second.train.classes
    assert torch.equal(whole(first.train).inputs["comment"], whole(second.train).inputs["comment"])


def test_marked_rows_of_a_text_are_absent_and_one_number_a_row_is_a_view_of_one_feature(tmp_path):
    path = save(tmp_path, present_comment=np.arange(40) % 2 == 0)
    splits = load("views", path=path, views=["comment", "age", "gist"], scaling="none")
    assert splits.train.modalities["age"] == (1,)
    assert all(
        torch.equal(part.present["comment"], part.inputs["age"][:, 0] % 2 == 0) for part in splits.parts().values()
    )
    with pytest.raises(DataError, match=r"view 'twins' has shape \(40, 2\); give one text a row"):
        load("views", path=save(tmp_path, twins=np.array([["a", "b"]] * 40)), views=["twins"])


def test_rows_without_any_view_are_named(tmp_path):
    gist, picture = arrays()["gist"], np.arange(40) != 7
    gist[[2, 7]] = np.nan
    path = save(tmp_path, gist=gist, present_picture=picture)
    with pytest.raises(DataReportError, match=r"mine.npz: 1 problem\n  row 7: no view is there; remove the row"):
        load("views", path=path)
