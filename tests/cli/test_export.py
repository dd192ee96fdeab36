import warnings

import torch

from evigrad.experiments import load_trained
from evigrad.training import predict


def test_the_program_gives_the_probabilities_of_the_run(evigrad, run, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporters' own
        answer = evigrad("export", run, "--out", tmp_path / "out", "--json")
    assert answer.code == 0, answer.err
    assert answer.json["program_difference"] < 1e-6
    assert answer.json["onnx_difference"] < 1e-5
    trained = load_trained(run)
    test = trained.experiment.splits().test
    batch = test.__getitems__(range(len(test)))
    program = torch.export.load(tmp_path / "out" / "model.pt2").module()
    found = predict(trained.network, trained.method, test).probabilities
    torch.testing.assert_close(program(batch.inputs, batch.present), found)


def test_a_run_that_is_not_there(evigrad, tmp_path):
    answer = evigrad("export", tmp_path)
    assert answer.code == 2
    assert "holds no run" in answer.err
