"""The same in the Hugging Face Trainer: python examples/huggingface_trainer.py. No adapter needed."""

import tempfile

import torch
from problem import Encoders, Views, accuracy, criterion
from torch import Tensor, nn
from transformers import Trainer, TrainingArguments


class Model(nn.Module):
    """What the Trainer expects: keyword inputs with ``labels``, and a dictionary with the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.encoders, self.criterion = Encoders(), criterion()

    def forward(self, audio: Tensor, video: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Loss and joint logits of a batch."""
        out = self.criterion(self.encoders({"audio": audio, "video": video}), labels)
        return {"loss": out.loss, "logits": out.joint_logits}


def main(epochs: int = 5) -> float:
    """Train, and return the accuracy on new samples."""
    torch.manual_seed(0)
    model = Model()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            use_cpu=True,
            num_train_epochs=epochs,
            per_device_train_batch_size=50,
            learning_rate=0.01,
            report_to="none",
            save_strategy="no",
        )
        Trainer(model, arguments, train_dataset=Views(2000, seed=1)).train()
    return accuracy(model.encoders, model.criterion)


if __name__ == "__main__":
    print(f"accuracy on new samples: {main():.3f}")
