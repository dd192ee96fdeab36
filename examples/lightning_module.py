"""The same as a LightningModule: python examples/lightning_module.py. Nothing but the criterion is needed."""

import lightning
import torch
from problem import Encoders, Views, accuracy, criterion
from torch import Tensor
from torch.utils.data import DataLoader


class Model(lightning.LightningModule):
    """Lightning's automatic optimisation calls backward on the loss that training_step returns."""

    def __init__(self) -> None:
        super().__init__()
        self.encoders, self.criterion = Encoders(), criterion()

    def training_step(self, batch: dict[str, Tensor], _: int) -> Tensor:
        """The loss, and the step's diagnostics for the logger."""
        out = self.criterion(self.encoders(batch), batch["labels"])
        self.log_dict(out.diagnostics.summary())
        return out.loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """One optimizer for encoders and heads."""
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def main(epochs: int = 5) -> float:
    """Train, and return the accuracy on new samples."""
    torch.manual_seed(0)
    model = Model()
    trainer = lightning.Trainer(
        accelerator="cpu", max_epochs=epochs, logger=False, enable_checkpointing=False, enable_model_summary=False
    )
    trainer.fit(model, DataLoader(Views(2000, seed=1), batch_size=50, shuffle=True))
    return accuracy(model.encoders, model.criterion)


if __name__ == "__main__":
    print(f"accuracy on new samples: {main():.3f}")
