"""Ask TensorFlow Serving over gRPC, which is faster than REST for ids and for large batches.

    pip install grpcio tensorflow && pip install --no-deps tensorflow-serving-api
    python grpc_client.py reviews text="A warm film." text="I want my money back."
    python grpc_client.py squad --signature question_answer question="Who?" context="It was Ada."

This client was tested with a small server of our own, never with TensorFlow Serving itself.
"""

import grpc
import numpy as np
import tensorflow as tf
from command_line import read
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc


def main() -> None:
    arguments, columns = read(__doc__.split("\n")[0], "localhost:8500")
    outputs = ask(arguments.address, arguments.model, arguments.signature, columns)
    for name, values in outputs.items():
        print(name, values.tolist())


def ask(
    address: str, model: str, signature: str, columns: dict[str, list[str]]
) -> dict[str, np.ndarray]:
    """Returns the outputs by name, with a row for each row of texts. Strings are bytes."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = signature
    for name, texts in columns.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(texts, tf.string))
    with grpc.insecure_channel(address) as channel:
        service = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        try:
            outputs = service.Predict(request, timeout=60).outputs
        except grpc.RpcError as error:
            raise SystemExit(f"{address} answered {error.code().name}: {error.details()}") from None
    return {name: tf.make_ndarray(value) for name, value in outputs.items()}


if __name__ == "__main__":
    main()
