"""Your own front end: a torch module, an ONNX file or a fitted transformer. python examples/own_features.py"""

import numpy as np
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper, save
from sklearn.decomposition import PCA

from dgdmn import SLDA, load, streams


def torch_features(module, batch_size=256):
    """The outputs of a torch module for images (n, h, w), flattened."""
    module.eval()  # batch norm and dropout must not depend on the batch

    @torch.no_grad()
    def features(X):
        parts = torch.from_numpy(X.astype(np.float32)).unsqueeze(1).split(batch_size)
        return torch.cat([module(part).flatten(1) for part in parts]).numpy()

    return features


def onnx_features(path):
    """The first output of an ONNX model for flat rows."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda X: session.run(None, {name: X.reshape(len(X), -1).astype(np.float32)})[0]


def transformer_features(transformer):
    """What a fitted transformer of scikit-learn makes of flat rows."""
    return lambda X: transformer.transform(X.reshape(len(X), -1))


def write_onnx(path, d, n_units):
    """Write a tiny ONNX model, max(0, x W) with random W."""
    weights = np.random.default_rng(0).normal(size=(d, n_units)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "W"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", None]) for n in "xy")
    graph = helper.make_graph(nodes, "units", [x], [y], [numpy_helper.from_array(weights, "W")])
    save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)]), path)


if __name__ == "__main__":
    stream = streams.load("embedded")
    torch.manual_seed(0)  # random filters here; yours would be a trained network
    module = torch.nn.Sequential(torch.nn.Conv2d(1, 32, 7), torch.nn.AdaptiveMaxPool2d(4))
    write_onnx("units.onnx", 784, 300)
    pca = PCA(40).fit(stream[3].train.x.reshape(-1, 784))  # fitted before learning begins
    own = {"torch": torch_features(module), "ONNX": onnx_features("units.onnx")}
    for name, features in {**own, "PCA": transformer_features(pca)}.items():
        model = SLDA(features=features)
        for task in stream:
            model.partial_fit(task.train.x, task.train.y)
        model.save("memory")
        model = load("memory", features=features)  # the same function again
        print(name, np.mean([model.score(task.test.x, task.test.y) for task in stream]).round(3))
