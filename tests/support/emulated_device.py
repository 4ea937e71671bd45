"""The emulated chip as a device of hajax.npu.ascend: CPU tensors, copied into its memory for each launch and back."""

import contextlib

from hajax.backends import sim
from hajax.backends.ascend_device import Device

READ = ("query", "key", "value", "log_decay", "beta", "erase", "state_in")


class EmulatedDevice(Device):
    """Tensors at one address are one array, so that a state updated in place is; what a launch does not write reads as NaN."""

    def __init__(self):
        super().__init__(emulated=True)
        self.launches, self.recording = 0, False

    def current(self):
        return contextlib.nullcontext()

    def records(self):
        return self.recording

    def launch(self, call, arrays):
        with self.arrays() as held:
            placed = {}
            for name, tensor in arrays.items():
                assert tensor.is_contiguous(), name
                at = tensor.data_ptr()
                if at not in placed:
                    placed[at] = held.put(tensor.numpy()) if name in READ else held.allocate(tensor.nbytes)
            call.launch(**{name: placed[tensor.data_ptr()] for name, tensor in arrays.items()}, stream=self.stream)
            self.launches += 1
            held.finish()
            for name in ("output", "state_out"):
                held.get(placed[arrays[name].data_ptr()], arrays[name].numpy())


@contextlib.contextmanager
def injected(faults):
    """Faults of the emulator's ACL, counted from here on."""
    library = sim.open_sim_library()
    assert library.lib.hajax_sim_inject(faults.encode()) == 0
    try:
        yield
    finally:
        assert library.lib.hajax_sim_inject(b"") == 0
