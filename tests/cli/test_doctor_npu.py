"""What `hajax doctor` says of an NPU's software: what is missing, which versions go together, and why `import torch` may fail."""

import subprocess
import sys

import pytest

from hajax import report
from hajax.backends import sim
from hajax.report import _npu


@pytest.fixture
def installed(monkeypatch):
    """Sets the versions of packages that are installed, and clears what says where CANN is."""
    for name in ("ASCEND_HOME_PATH", "LD_LIBRARY_PATH", "TORCH_DEVICE_BACKEND_AUTOLOAD", "HAJAX_ASCEND_LIBRARY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_npu, "_INSTALLS", ("/nowhere",))

    def versions(**known):
        monkeypatch.setattr(_npu, "_version", lambda package: known.get(package.replace("-", "_")))

    versions()
    return versions


def test_with_nothing_there_every_part_is_named(installed):
    facts = report.diagnose()["npu"]
    assert not facts["ready"] and facts["cann"] == {"root": None}
    assert set(facts["missing"]) == {"cann", "device", "library", "torch_npu"}
    assert "installing hajax where CANN is found builds it" in facts["missing"]["library"]
    assert "torch and torch_npu not installed: pip install 'hajax[npu]'" in facts["missing"]["torch_npu"]


def test_torch_and_torch_npu_go_together(installed):
    installed(torch="2.13.0+cpu", torch_npu="2.13.0.post1")
    assert "torch_npu" not in _npu.diagnose_npu()["missing"]
    installed(torch="2.13.0", torch_npu="2.12.0.post3")
    assert (
        _npu.diagnose_npu()["missing"]["torch_npu"]
        == "torch_npu 2.12.0.post3 is for torch 2.12.0, but torch is 2.13.0: install a pair"
    )
    installed(torch="2.13.0")
    assert _npu.diagnose_npu()["missing"]["torch_npu"].startswith("torch_npu not installed")


def test_the_trap_of_torch_npu_without_cann(installed, monkeypatch, tmp_path):
    installed(torch="2.13.0", torch_npu="2.13.0")
    said = _npu.diagnose_npu()["missing"]["import_torch"]
    assert "`import torch` fails" in said and "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in said
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    assert "import_torch" not in _npu.diagnose_npu()["missing"]
    monkeypatch.delenv("TORCH_DEVICE_BACKEND_AUTOLOAD")
    (tmp_path / "libascendcl.so").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{tmp_path}")
    assert "import_torch" not in _npu.diagnose_npu()["missing"]


def test_cann_its_version_and_its_environment(installed, monkeypatch, tmp_path):
    (tmp_path / "cann").mkdir()
    (tmp_path / "cann/version.cfg").write_text("# notes\nruntime_running_version=[9.0.0:9.0.0]\n")
    monkeypatch.setattr(_npu, "_INSTALLS", ("/nowhere", str(tmp_path)))
    facts = _npu.diagnose_npu()
    assert facts["cann"] == {"root": str(tmp_path / "cann"), "sourced": False, "version": "9.0.0"}
    assert "set_env.sh" in facts["missing"]["cann_environment"]
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    facts = _npu.diagnose_npu()
    assert facts["cann"]["sourced"] and not {"cann", "cann_environment"} & set(facts["missing"])


def test_with_everything_there_it_is_ready(installed, monkeypatch, tmp_path):
    """The library and the device are the emulator's."""
    installed(torch="2.13.0", torch_npu="2.13.0")
    (tmp_path / "libascendcl.so").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    monkeypatch.setenv("HAJAX_ASCEND_LIBRARY", str(sim.open_sim_library().path))
    monkeypatch.setattr(_npu.glob, "glob", lambda pattern: ["/dev/davinci0", "/dev/davinci_manager"])
    facts = report.diagnose()["npu"]
    assert facts["ready"] and facts["missing"] == {} and facts["driver"] == {"devices": ["/dev/davinci0"]}
    assert (facts["device"]["soc"], facts["device"]["cores"], facts["device"]["target"]) == ("Ascend310P1", 10, "ascend310p1")


def test_a_device_that_the_kernel_is_not_written_for(installed, monkeypatch):
    monkeypatch.setenv("HAJAX_ASCEND_LIBRARY", str(sim.open_sim_library().path))
    monkeypatch.setattr(_npu.glob, "glob", lambda pattern: ["/dev/davinci0"])
    monkeypatch.setattr("hajax.backends.ascend.soc_name", lambda library: "Ascend310B1")
    facts = _npu.diagnose_npu()
    assert facts["device"]["open"] and facts["device"]["target"] is None
    assert (
        "expected one of ascend310p1, ascend310p3" in facts["missing"]["kernel"]
        and "got Ascend310B1" in facts["missing"]["kernel"]
    )


def test_torch_is_not_imported():
    code = "import sys; from hajax import report; report.diagnose(); assert not {'torch', 'torch_npu'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
