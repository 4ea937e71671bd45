"""The fake ACL runtime through ctypes, and its return codes."""

import ctypes

import numpy as np

from hajax.backends import sim

H2H, H2D, D2H, D2D, ANY = range(5)
OK, INVALID_PARAM, RT_PARAM_INVALID, NO_CONTEXT, BAD_HANDLE = 0, 100000, 107000, 107002, 107017
NO_MEMORY, LOST, TIMEOUT, EXCEPTION, CIRCLE, EVENT_TIMEOUT = 207001, 507010, 507014, 507015, 507046, 507047
X = np.arange(64, dtype=np.int32)


class Acl:
    """The runtime's functions by name without `acl`: integers are passed as they are, `out` gives a pointer's place."""

    def __init__(self):
        self.lib = ctypes.CDLL(str(sim.open_sim_library().path))
        self.lib.aclGetRecentErrMsg.restype = ctypes.c_char_p
        self.lib.aclrtGetSocName.restype = ctypes.c_char_p

    def __getattr__(self, name):
        function = getattr(self.lib, f"acl{name}")
        return lambda *arguments: function(*(ctypes.c_uint64(a % (1 << 64)) if isinstance(a, int) else a for a in arguments))

    def inject(self, text):
        return self.lib.hajax_sim_inject(text)

    def make(self, name, *arguments):
        """A call that gives a handle or an address through its first argument."""
        place = ctypes.c_uint64()
        code = getattr(self, name)(ctypes.byref(place), *arguments)
        assert code == OK, self.text()
        return place.value

    def text(self):
        found = self.GetRecentErrMsg()
        return None if found is None else found.decode()

    def put(self, array):
        address = self.make("rtMalloc", array.nbytes, 0)
        assert self.rtMemcpy(address, array.nbytes, array.ctypes.data, array.nbytes, H2D) == OK, self.text()
        return address

    def get(self, address, count, dtype=np.int32):
        array = np.empty(count, dtype)
        assert self.rtMemcpy(array.ctypes.data, array.nbytes, address, array.nbytes, D2H) == OK, self.text()
        return array

    def launch(self, function, arguments, stream=0, blocks=1):
        packed = np.array([a % (1 << 64) for a in arguments], np.uint64)
        return self.rtLaunchKernel(function, blocks, packed.ctypes.data, packed.nbytes, stream)


def function_of(acl, kernels, name):
    place = ctypes.c_uint64()
    assert acl.rtBinaryLoadFromFile(str(kernels).encode(), 0, ctypes.byref(place)) == OK, acl.text()
    binary, function = place.value, ctypes.c_uint64()
    assert acl.rtBinaryGetFunction(binary, name.encode(), ctypes.byref(function)) == OK, acl.text()
    return function.value
