import csv
from pathlib import Path

import numpy as np
import pytest
import torch

from evigrad.data import DataError, DataReportError, Decoding, batches, load, whole
from evigrad.data.table import TableDataset
from tests.data.files import write_png, write_wav

OPTIONS = {"image_size": (4, 4), "rate": 8000, "seconds": 0.1, "mel_bins": 8, "window": 64, "hop": 40, "text_length": 5}


def write_table(folder: Path, count: int = 20, **columns: list[str]) -> Path:
    """Sound and picture in each row, picture missing in every fifth; ``columns`` replaces or adds columns."""
    random = np.random.default_rng(0)
    rows: list[dict[str, str]] = []
    for i in range(count):
        write_wav(folder / "sound" / f"{i}.wav", random.uniform(-0.5, 0.5, 500))
        write_png(folder / "picture" / f"{i}.png", np.full((4, 4, 3), 10 * i))
        picture = f"picture/{i}.png" if i % 5 else ""
        rows.append({"audio": f"sound/{i}.wav", "image": picture, "label": "yes" if i % 2 else "no"})
    for name, cells in columns.items():
        for row, cell in zip(rows, cells, strict=True):
            row[name] = cell
    with (folder / "table.csv").open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return folder / "table.csv"


def test_reads_files_and_marks_missing_cells(tmp_path):
    split = ["train"] * 10 + ["validation"] * 5 + ["test"] * 5
    splits = load("table", path=write_table(tmp_path, split=split), **OPTIONS)
    assert [len(part) for part in splits.parts().values()] == [10, 5, 5]
    assert splits.train.modalities == {"audio": (1, 8, 19), "image": (3, 4, 4)}
    assert splits.train.classes == ("no", "yes")
    batch = whole(splits.test)
    assert batch.present["image"].tolist() == [False, True, True, True, True]
    assert batch.inputs["image"][:, 0, 0, 0].tolist() == pytest.approx([0, 160 / 255, 170 / 255, 180 / 255, 190 / 255])
    assert batch.target.tolist() == [1, 0, 1, 0, 1]
    assert batch.index.tolist() == [0, 1, 2, 3, 4]
    assert "as given" in splits.test.protocol
    assert splits.info.samples == 20


def test_workers_give_the_same_batches(tmp_path):
    data = load("table", path=write_table(tmp_path), **OPTIONS).train
    for first, second in zip(batches(data, 4), batches(data, 4, workers=2), strict=True):
        assert torch.equal(first.inputs["audio"], second.inputs["audio"])
        assert torch.equal(first.present["image"], second.present["image"])


def test_groups_stay_together(tmp_path):
    group = [f"g{i // 4}" for i in range(20)]
    splits = load("table", path=write_table(tmp_path, group=group), **OPTIONS)
    parts = [{row["group"] for row in part.rows} for part in splits.parts().values()]
    assert sum(len(part) for part in parts) == 5


def test_parquet_equals_csv(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    path = write_table(tmp_path)
    with path.open(encoding="utf-8-sig") as file:
        rows = [{k: v or None for k, v in row.items()} for row in csv.DictReader(file)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "table.parquet")
    first, second = (load("table", path=tmp_path / f"table.{e}", **OPTIONS) for e in ("csv", "parquet"))
    assert torch.equal(whole(first.test).inputs["image"], whole(second.test).inputs["image"])
    assert torch.equal(whole(first.test).present["image"], whole(second.test).present["image"])


def test_another_label_and_chosen_columns(tmp_path):
    path = write_table(tmp_path, mood=["a", "b"] * 10, note=["free text"] * 20)
    splits = load("table", path=path, label="mood", columns=["audio"], **OPTIONS)
    assert splits.train.classes == ("a", "b")
    assert list(splits.train.modalities) == ["audio"]


def test_all_that_is_wrong_in_one_report(tmp_path):
    audio = [f"sound/{i}.wav" for i in range(20)]
    audio[2], audio[3], audio[4] = "sound/gone.wav", "picture/1.png", "a.mp4"
    label = ["yes", "no"] * 10
    label[6] = ""
    image = ["picture/1.png"] * 20
    audio[8] = image[8] = ""
    path = write_table(tmp_path, audio=audio, label=label, image=image, split=["train"] * 19 + ["tset"])
    with pytest.raises(DataReportError) as caught:
        load("table", path=path, **OPTIONS)
    assert str(caught.value).splitlines() == [
        "table.csv: 6 problems",
        f"  row 3, column 'audio': no such file {tmp_path / 'sound/gone.wav'}",
        "  row 4, column 'audio': 'picture/1.png' is another kind of file than 'sound/0.wav' above",
        "  row 5, column 'audio': 'a.mp4' is no wav, png, jpg, jpeg, npy, txt file; "
        "columns=[...] names the columns to use",
        "  row 7, column 'label': the label is missing",
        "  row 9: no modality is there; remove the row",
        "  row 20, column 'split': 'tset' is not train, validation or test",
    ]


def test_a_broken_file_is_named_by_row_and_column_when_read(tmp_path):
    path = write_table(tmp_path, split=["train"] * 10 + ["validation"] * 5 + ["test"] * 5)
    (tmp_path / "sound" / "17.wav").write_bytes(b"junk")
    test = load("table", path=path, **OPTIONS).test
    with pytest.raises(DataError, match=r"row 18, column 'audio': .*17.wav: not a readable PCM wav file"):
        test[2]


def test_arrays_of_two_shapes_are_named(tmp_path):
    for i in range(20):
        np.save(tmp_path / f"{i}.npy", np.zeros(3 if i != 19 else 4))
    path = write_table(tmp_path, audio=[f"{i}.npy" for i in range(20)], split=["train"] * 15 + ["test"] * 5)
    with pytest.raises(
        DataError, match=r"row 20, column 'audio': 19.npy has shape \(4,\), the column's first file \(3,\)"
    ):
        whole(load("table", path=path, **OPTIONS).test)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("audio,audio,label\na,b,c\n", "column 'audio' is there twice; rename one"),
        ("audio,label\na.wav\n", "row 1: 1 cells for 2 columns"),
        ("audio,label\n", "the table has no row"),
        ("label\nx\n", "there is no column besides the label"),
        ("audio,lable\na.wav,x\n", "unknown column in t.csv: 'label'. Did you mean 'lable'?"),
        ("audio;label\na.wav;x\n", "its columns are separated by semicolons; save the table with commas"),
        ("audio\tlabel\na.wav\tx\n", "its columns are separated by tabs; save the table with commas"),
        ("audio,label\n" + "x" * 140_000 + ",a\n", "not a readable CSV table .*; look for a quote that is not closed"),
        (
            "audio,label\n" + "x" * 5_000 + ".wav,a\n",
            "row 1, column 'audio': 'xxx.*'... names no file .File name too long",
        ),
        (
            "audio,label,group\na.wav,x,\n",
            "row 1, column 'group': the group is missing; name one, or remove the column",
        ),
        ("audio,label\na.wav,x\nb.wav,x\n", "column 'label' has the one class 'x'; give rows of at least two"),
    ],
)
def test_broken_tables(tmp_path, text, error):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=error):
        load("table", path=tmp_path / "t.csv")


def test_a_column_without_any_file(tmp_path):
    with pytest.raises(DataError, match="column 'video' has no file in any row; remove the column"):
        load("table", path=write_table(tmp_path, video=[""] * 20), **OPTIONS)


def test_other_errors(tmp_path):
    with pytest.raises(DataError, match=r"no such table; give a .csv or .parquet file"):
        load("table", path=tmp_path / "gone.csv")
    (tmp_path / "t.xlsx").write_bytes(b"")
    with pytest.raises(DataError, match=r"the table's name must end in .csv or .parquet, not '.xlsx'"):
        load("table", path=tmp_path / "t.xlsx")
    with pytest.raises(
        DataError, match=r"unknown option of data set 'table': 'image_sise'. Did you mean 'image_size'\?"
    ):
        load("table", path=write_table(tmp_path), image_sise=(3, 3))
    with pytest.raises(DataError, match=r"table' needs the option path=\.\.\."):
        load("table")


def test_blanks_around_names_and_empty_lines_do_not_matter(tmp_path):
    path = write_table(tmp_path)
    first = load("table", path=path, **OPTIONS)
    text = path.read_text(encoding="utf-8-sig")
    path.write_text("\n" + text.replace("audio,image,label", '"audio", image, label').replace("\n", "\n\n"))
    second = load("table", path=path, **OPTIONS)
    assert list(second.train.modalities) == ["audio", "image"]
    assert torch.equal(whole(first.test).inputs["audio"], whole(second.test).inputs["audio"])


def test_a_table_in_another_encoding_is_named(tmp_path):
    (tmp_path / "t.csv").write_bytes("audio,label\na.wav,gr\u00fcn\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"t.csv: not UTF-8 .*; save the table as CSV in UTF-8"):
        load("table", path=tmp_path / "t.csv")


def test_a_split_without_test_rows_is_not_passed_over(tmp_path):
    path = write_table(tmp_path, split=["train"] * 15 + ["validation"] * 5)
    with pytest.raises(DataError, match=r"needs rows for train and test .* it has \['train', 'validation'\]"):
        load("table", path=path, **OPTIONS)
    assert len(load("table", path=path, split="seeded", **OPTIONS).test) == 4


def test_a_column_named_twice(tmp_path):
    with pytest.raises(DataError, match="'audio' is there twice; name each column once"):
        load("table", path=write_table(tmp_path), columns=["audio", "audio"], **OPTIONS)


def test_numbers_gaps_and_damage_in_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    write_table(tmp_path)
    columns = {"audio": [f" sound/{i}.wav" for i in range(20)], "label": [float(i % 2) for i in range(20)]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    assert load("table", path=tmp_path / "t.parquet", **OPTIONS).train.classes == ("0", "1")
    columns["label"][3] = float("nan")
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    with pytest.raises(DataReportError, match="1 problem\n  row 4, column 'label': the label is missing"):
        load("table", path=tmp_path / "t.parquet", **OPTIONS)
    twice = pyarrow.table([columns["audio"], columns["audio"]], names=["audio", "audio"])
    parquet.write_table(twice, tmp_path / "t.parquet")
    with pytest.raises(DataReportError, match="column 'audio' is there twice; rename one"):
        load("table", path=tmp_path / "t.parquet", **OPTIONS)
    (tmp_path / "t.parquet").write_bytes(b"PAR1junk")
    with pytest.raises(DataError, match=r"t.parquet: not a readable Parquet table .*; write it again"):
        load("table", path=tmp_path / "t.parquet", **OPTIONS)


def test_rows_outside_and_columns_without_files_of_a_data_set_made_by_hand(tmp_path):
    data = load("table", path=write_table(tmp_path), **OPTIONS).test
    with pytest.raises(IndexError, match="row 4 of a table with 4 rows"):
        data[4]
    with pytest.raises(DataError, match="column 'video' has no file in any row; remove the column"):
        TableDataset([{"video": ""}], ["video"], torch.tensor([0]), ["x"], tmp_path, Decoding(), "by hand")
