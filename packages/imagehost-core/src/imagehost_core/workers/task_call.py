"""A call of a task, as the image executor sends it to a worker process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from attrs import frozen

from imagehost_core.workers import messages
from imagehost_core.workers.process import WorkerLost, worker_errors

Result = TypeVar("Result")


@frozen
class TaskCall(Generic[Result]):
    """A call of a task.

    Attributes:
        task: Name in the task table.
        arguments: The arguments before the source: attrs objects, enums or plain values.
        result_type: Type of the result.
        blob_count: Returns the number of blobs that belong to a result.
        format: The format of the variant or of the upload, for measurements.
    """

    task: str
    arguments: tuple[object, ...]
    result_type: type[Result]
    blob_count: Callable[[Result], int]
    format: str = ""

    def parse_result(self, message: messages.TaskResult, lengths: tuple[int, ...]) -> Result:
        """Return the result in a message.

        Raises:
            WorkerLost: The message holds no result of this call.
        """
        with worker_errors():
            result = messages.from_json(message.value, self.result_type)
        if len(lengths) != self.blob_count(result):
            raise WorkerLost(f"expected {self.blob_count(result)} blobs but received {len(lengths)}")
        return result
