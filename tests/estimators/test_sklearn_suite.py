"""scikit-learn's own tests of its support vector machines, run on the classes of this package.

The installed test modules are loaded once more, under names of their own, against a copy of `sklearn.svm` that holds
dualgap's classes; the modules that everybody else imports are left alone. Tests that say nothing of dualgap are listed
with the reason, and must fail: a name that has come to pass is taken off the list.
"""

import importlib.util
import sys
import types

import pytest
import sklearn
import sklearn.svm
from sklearn.utils.fixes import parse_version

import dualgap

if parse_version(sklearn.__version__) < parse_version("1.9"):
    pytest.skip("the list below is made for the tests of scikit-learn 1.9", allow_module_level=True)

OURS = ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM", "LinearSVC", "LinearSVR")
MODULES = ("test_svm", "test_sparse", "test_bounds")
PRIVATE = "writes to a private attribute that only LIBSVM's wrapper has"
QUICK = "a limit of two steps is meant to be too few, and is not: the solution is reached within"
WIDER = "asks for an error where this package has an answer"
PROBABILITY = "scikit-learn deprecates probability; here it stays"
# A test, or one of its cases.
NOT_OURS = {
    "test_svm_tweak_params": PRIVATE,
    "test_svm_svc_raises_error_internal_representation": PRIVATE,
    "test_svm_svr_errors": "a kernel of the wrong shape is an error of fit, not only of predict",
    "test_svm_bad_input": WIDER + ": sparse samples for a machine that was fitted on dense ones",
    "test_svm_svc_nonfinite_params": "the same error in other words",
    "test_svm_linearsvc_parameters[True-l1-hinge]": WIDER,
    "test_svm_linearsvc_parameters[True-l1-squared_hinge]": WIDER,
    "test_svm_linearsvc_parameters[False-l1-hinge]": WIDER,
    "test_svm_linearsvc_parameters[False-l2-hinge]": WIDER,
    "test_svm_libsvm_convergence_warnings": QUICK,
    "test_svm_linear_svm_convergence_warnings": QUICK,
    "test_sparse_timeout": QUICK,
    "test_svm_svc_ovr_tie_breaking[NuSVC]": "needs biases off zero by rounding: here they are zero",
    "test_svm_custom_kernel_not_array_input[SVC]": "its kernel is wrong unless asked for all samples against all",
    "test_svm_probability_raises_futurewarning": PROBABILITY,
    "test_svm_svc_nusvc_probA_probB_deprecated": PROBABILITY,
}


@pytest.fixture
def global_random_seed():
    """What scikit-learn's own tests use where nothing else is asked for."""
    return 42


@pytest.fixture(autouse=True)
def excused(request):
    """Tests on the list are expected to fail."""
    reason = NOT_OURS.get(request.node.name) or NOT_OURS.get(request.node.originalname)
    if reason is not None:
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))


def _stand_in():
    """A module like `sklearn.svm`, with the classes of this package."""
    module = types.ModuleType("sklearn.svm")
    module.__dict__.update(vars(sklearn.svm))
    module.__dict__.update({name: getattr(dualgap, name) for name in OURS})
    return module


def _load(name, stand_in):
    """A copy of one of scikit-learn's test modules that sees the stand-in."""
    spec = importlib.util.find_spec(f"sklearn.svm.tests.{name}")
    if spec is None:
        return types.ModuleType(name)
    copy = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "sklearn.svm", stand_in)
        patch.setattr(sklearn, "svm", stand_in)
        spec.loader.exec_module(copy)
    return copy


def _tests():
    stand_in = _stand_in()
    for module in MODULES:
        for name, function in vars(_load(module, stand_in)).items():
            if name.startswith("test_") and isinstance(function, types.FunctionType):
                yield f"{module}_{name.removeprefix('test_')}", function


globals().update(_tests())


def test_the_suite_is_there():
    found = [name for name in globals() if name.startswith(tuple(f"{module}_" for module in MODULES))]
    if not found:
        pytest.skip("scikit-learn is installed without its tests")
    assert len(found) > 60
    assert {name.partition("[")[0] for name in NOT_OURS} <= set(found)
    assert sklearn.svm.SVC is not dualgap.SVC
