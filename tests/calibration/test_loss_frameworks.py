"""Inside the loops of others: the criterion needs no adapter, and what they train is what a plain loop trains."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from tests.zoo import Model, gradients

LENGTH, SIZE, RATE = 24, 4, 0.1


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # Lightning sets it when it is imported


class Samples(Dataset):
    def __init__(self):
        self.inputs, self.target = Model().batch(LENGTH)

    def __len__(self):
        return LENGTH

    def __getitem__(self, row):
        return {name: value[row] for name, value in self.inputs.items()} | {"labels": self.target[row]}


class Net(nn.Module):
    """Encoders and criterion as one module, so that a wrapper sees both."""

    def __init__(self):
        super().__init__()
        self.model = Model(refresh=2)

    def forward(self, batch):
        return self.model({name: batch[name] for name in self.model.names}, batch["labels"])


class Dictionary(Net):
    """What the Hugging Face Trainer asks of a model: keyword inputs, and outputs with a loss in them."""

    def forward(self, audio, video, labels):
        out = self.model({"audio": audio, "video": video}, labels)
        return {"loss": out.loss, "logits": out.joint_logits}


def build(kind=Net):
    torch.manual_seed(0)
    return kind()


def plain_loop(accumulate=1):
    net = build()
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    for number, batch in enumerate(DataLoader(Samples(), SIZE), 1):
        (net(batch).loss / accumulate).backward()
        if number % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
    return net.model.state_dict()


def assert_same_state(net, wanted):
    torch.testing.assert_close(net.model.state_dict(), wanted, rtol=0, atol=0)


class TestFabric:
    @pytest.fixture
    def fabric(self):
        return pytest.importorskip("lightning_fabric").Fabric

    @pytest.mark.parametrize("accumulate", [1, 2])
    def test_a_loop(self, fabric, accumulate):
        fabric, net = fabric(accelerator="cpu", devices=1), build()
        wrapped, optimizer = fabric.setup(net, torch.optim.SGD(net.parameters(), lr=RATE))
        for number, batch in enumerate(fabric.setup_dataloaders(DataLoader(Samples(), SIZE)), 1):
            with fabric.no_backward_sync(wrapped, enabled=number % accumulate > 0):
                out = wrapped(batch)
                assert out.diagnostics.summary()
                fabric.backward(out.loss / accumulate)
            if number % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
        assert_same_state(net, plain_loop(accumulate))

    @pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true", "64-true"])
    def test_precision(self, fabric, precision):
        """Outputs come back whole, gradients arrive, and statistics are kept in float32 at least."""
        fabric, net = fabric(accelerator="cpu", devices=1, precision=precision), build()
        exact = copy.deepcopy(net)
        wrapped, _ = fabric.setup(net, torch.optim.SGD(net.parameters(), lr=RATE))
        batch = next(iter(DataLoader(Samples(), SIZE)))
        out = wrapped(batch)
        fabric.backward(out.loss)
        exact(batch).loss.backward()
        assert set(out.unimodal_logits) == {"audio", "video"}
        got, wanted = (
            torch.cat([value.flatten().float() for value in gradients(one).values()]) for one in (net, exact)
        )
        assert (got - wanted).norm() < 0.05 * wanted.norm()  # bfloat16 has 8 bits
        kept = {value.dtype for value in net.model.criterion.calibration.state_dict().values()}
        assert kept == {torch.float64 if precision == "64-true" else torch.float32, torch.int64}

    def test_modules_set_up_one_by_one(self, fabric):
        """Encoders and criterion may be wrapped by themselves: nothing inside calls a hooked backward."""
        fabric, net = fabric(accelerator="cpu", devices=1, precision="bf16-mixed"), build()
        encoders = {name: fabric.setup_module(net.model.encoders[name]) for name in net.model.names}
        criterion = fabric.setup_module(net.model.criterion)
        batch = next(iter(DataLoader(Samples(), SIZE)))
        out = criterion({name: encoder(batch[name]) for name, encoder in encoders.items()}, batch["labels"])
        fabric.backward(out.loss)
        assert all(value.grad.abs().sum() > 0 for value in net.parameters())

    def test_float16_with_a_scaler(self, fabric):
        """Fabric's plugin scales the loss by 65536 and unscales before the step: float32 training up to rounding."""
        from lightning_fabric.plugins.precision import MixedPrecision

        fabric, net = fabric(accelerator="cpu", devices=1, plugins=MixedPrecision("16-mixed", "cpu")), build()
        start = torch.cat([value.detach().flatten().clone() for value in net.parameters()])
        wrapped, optimizer = fabric.setup(net, torch.optim.SGD(net.parameters(), lr=RATE))
        for batch in fabric.setup_dataloaders(DataLoader(Samples(), SIZE)):
            optimizer.zero_grad()
            fabric.backward(wrapped(batch).loss)
            optimizer.step()
        wanted = plain_loop()
        moved = torch.cat([wanted[name].flatten() for name, _ in net.model.named_parameters()]) - start
        error = torch.cat([value.detach().flatten() for value in net.parameters()]) - start - moved
        assert error.norm() < 0.02 * moved.norm()

    def test_fabric_still_insists_on_its_own_backward(self, fabric):
        """Its hook sits on the tensors that the criterion returns, tuple or not."""
        fabric, net = fabric(accelerator="cpu", devices=1, precision="bf16-mixed"), build()
        wrapped, _ = fabric.setup(net, torch.optim.SGD(net.parameters(), lr=RATE))
        out = wrapped(next(iter(DataLoader(Samples(), SIZE))))
        with pytest.raises(RuntimeError, match=r"requires you to call `fabric\.backward\(loss\)`"):
            out.loss.backward()


@pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning")  # Lightning's own
class TestLightning:
    @pytest.mark.parametrize("accumulate", [1, 2])
    def test_automatic_optimisation(self, accumulate, tmp_path):
        lightning = pytest.importorskip("lightning")

        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.net = build()

            def training_step(self, batch, _):
                out = self.net(batch)
                self.log_dict(out.diagnostics.summary())
                return out.loss

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=RATE)

        module = Module()
        trainer = lightning.Trainer(
            accelerator="cpu", devices=1, max_epochs=1, accumulate_grad_batches=accumulate, logger=False,
            enable_checkpointing=False, enable_model_summary=False, enable_progress_bar=False,
            default_root_dir=tmp_path, num_sanity_val_steps=0,
        )  # fmt: skip
        trainer.fit(module, DataLoader(Samples(), SIZE))
        assert_same_state(module.net, plain_loop(accumulate))
        assert "audio/conflict" in trainer.callback_metrics


class TestTransformers:
    @pytest.mark.parametrize("accumulate", [1, 2])
    def test_trainer(self, accumulate, tmp_path):
        transformers = pytest.importorskip("transformers")
        net = build(Dictionary)
        optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
        arguments = transformers.TrainingArguments(
            str(tmp_path), use_cpu=True, num_train_epochs=1, per_device_train_batch_size=SIZE, max_grad_norm=0.0,
            gradient_accumulation_steps=accumulate, report_to="none", save_strategy="no", disable_tqdm=True,
            train_sampling_strategy="sequential",
        )  # fmt: skip
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
        trainer = transformers.Trainer(net, arguments, train_dataset=Samples(), optimizers=(optimizer, schedule))
        trainer.train()
        assert_same_state(net, plain_loop(accumulate))
        answer = trainer.predict(Samples())
        assert answer.predictions.shape == (LENGTH, 3)


class TestAccelerate:
    @pytest.mark.parametrize("precision", ["no", "bf16"])
    @pytest.mark.parametrize("accumulate", [1, 2])
    def test_a_loop(self, accumulate, precision):
        accelerate = pytest.importorskip("accelerate")
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
        accelerator = accelerate.Accelerator(
            cpu=True, gradient_accumulation_steps=accumulate, mixed_precision=precision
        )
        net = build()
        prepared, optimizer, loader = accelerator.prepare(
            net, torch.optim.SGD(net.parameters(), lr=RATE), DataLoader(Samples(), SIZE)
        )
        for batch in loader:
            with accelerator.accumulate(prepared):
                out = prepared(batch)
                assert out.diagnostics.summary()
                assert out.joint_logits.dtype == torch.float32
                accelerator.backward(out.loss)
                optimizer.step()
                optimizer.zero_grad()
        if precision == "no":
            assert_same_state(net, plain_loop(accumulate))
        else:
            weights = torch.cat([value.flatten() for value in net.parameters()])
            start = torch.cat([value.flatten() for value in build().parameters()])
            moved = torch.cat([plain_loop(accumulate)[name].flatten() for name, _ in net.model.named_parameters()])
            assert (weights - moved).norm() < 0.1 * (moved - start).norm()
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
