import json

from evigrad.training.tables import GrowingFile, read_table


def test_rows_are_appended_under_one_header_also_by_a_later_process(tmp_path):
    path = tmp_path / "a.csv"
    GrowingFile(path).append([{"x": 1, "y": 0.1}])
    GrowingFile(path).append([{"x": 2, "y": 0.2}, {"x": 3}])
    assert read_table(path) == [{"x": "1", "y": "0.1"}, {"x": "2", "y": "0.2"}, {"x": "3", "y": ""}]


def test_cutting_goes_back_to_an_earlier_moment_also_to_nothing(tmp_path):
    file = GrowingFile(tmp_path / "a.csv")
    sizes = [file.size()]
    for x in range(3):
        file.append([{"x": x}])
        sizes.append(file.size())
    file.cut(sizes[2])
    assert [row["x"] for row in read_table(file.path)] == ["0", "1"]
    file.cut(sizes[0])
    file.append([{"z": 1}])
    assert file.path.read_text() == "z\n1\n"


def test_json_lines_have_null_where_a_number_is_not_finite(tmp_path):
    file = GrowingFile(tmp_path / "a.jsonl")
    file.append([{"x": float("nan"), "y": 1.5, "z": "word"}])
    assert json.loads(file.path.read_text()) == {"x": None, "y": 1.5, "z": "word"}
