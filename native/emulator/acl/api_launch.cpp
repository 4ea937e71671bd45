// Binaries, their functions, and launches.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdexcept>

#include "native/emulator/acl/include/tikicpulib.h"
#include "native/emulator/acl/kernel.h"
#include "native/emulator/acl/runtime.h"

using namespace hajax::emulator::acl;
namespace emulator = hajax::emulator;

namespace {

constexpr size_t kWord = 8;
constexpr size_t kMostBytes = HJ_ARGUMENTS * kWord;

const Function& function_of(const Runtime& runtime, aclrtFuncHandle handle) {
  const auto found = runtime.functions.find(id(handle));
  if (found == runtime.functions.end()) {
    throw Failure{ACL_ERROR_RT_INVALID_HANDLE,
                  "funcHandle: " + hex(handle) + " is no function, or its binary was unloaded"};
  }
  return found->second;
}

Arguments& arguments_of(Runtime& runtime, aclrtArgsHandle handle) {
  const auto found = runtime.arguments.find(id(handle));
  if (found == runtime.arguments.end()) {
    throw Failure{ACL_ERROR_RT_INVALID_HANDLE, "argsHandle: " + hex(handle) + " is not from aclrtKernelArgsInit"};
  }
  return found->second;
}

std::vector<uint64_t> words_of(const void* data, size_t size) {
  if (size > kMostBytes || size % kWord != 0) {
    throw Failure{ACL_ERROR_RT_PARAM_INVALID, "argsSize: expected a multiple of 8 up to " + std::to_string(kMostBytes) +
                                                  ", as each argument takes 8 bytes, got " + std::to_string(size)};
  }
  if (size > 0) need(data, "argsData");
  std::vector<uint64_t> words(size / kWord);
  if (size > 0) memcpy(words.data(), data, size);
  return words;
}

void launch_function(Runtime& runtime, aclrtFuncHandle handle, uint32_t blocks, std::vector<uint64_t> words,
                     aclrtStream stream) {
  const Function& function = function_of(runtime, handle);
  runtime.launch(function.address, function.name, blocks, std::move(words), runtime.stream(stream));
}

void refuse_config(const aclrtLaunchKernelCfg* cfg) {
  if (cfg != nullptr && cfg->numAttrs != 0) {
    throw Failure{ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "cfg: expected none, as the emulator has no launch attributes"};
  }
}

}  // namespace

aclError aclrtBinaryLoadFromFile(const char* binPath, aclrtBinaryLoadOptions*, aclrtBinHandle* binHandle) {
  return entry("aclrtBinaryLoadFromFile", Needs::context, [&](Runtime& runtime) {
    need(binPath, "binPath");
    need(binHandle, "binHandle");
    Binary binary;
    binary.path = binPath;
    try {
      // Without a slash the loader would search its folders instead of opening the file that is named.
      const std::string path = binary.path.find('/') == std::string::npos ? "./" + binary.path : binary.path;
      binary.library = emulator::open_library(path);
    } catch (const std::runtime_error& error) {
      throw Failure{ACL_ERROR_INVALID_FILE, std::string("binPath: ") + error.what()};
    }
    const uint64_t handle = runtime.new_handle();
    runtime.binaries[handle] = binary;
    *binHandle = handle_of(handle);
  });
}

aclError aclrtBinaryUnLoad(aclrtBinHandle binHandle) {
  return entry("aclrtBinaryUnLoad", Needs::context, [&](Runtime& runtime) {
    const auto found = runtime.binaries.find(id(binHandle));
    if (found == runtime.binaries.end()) {
      throw Failure{ACL_ERROR_RT_INVALID_HANDLE, "binHandle: " + hex(binHandle) + " is no binary, or was unloaded"};
    }
    // Queued kernels may be in it.
    for (const auto& [handle, context] : runtime.contexts) {
      runtime.advance(*context.default_stream, [] { return false; });
    }
    for (const auto& [handle, stream] : runtime.streams) runtime.advance(*stream, [] { return false; });
    for (auto at = runtime.functions.begin(); at != runtime.functions.end();) {
      at = at->second.binary == found->first ? runtime.functions.erase(at) : std::next(at);
    }
    emulator::close_library(found->second.library);
    runtime.binaries.erase(found);
  });
}

aclError aclrtBinaryGetFunction(const aclrtBinHandle binHandle, const char* kernelName, aclrtFuncHandle* funcHandle) {
  return entry("aclrtBinaryGetFunction", Needs::context, [&](Runtime& runtime) {
    need(kernelName, "kernelName");
    need(funcHandle, "funcHandle");
    const auto found = runtime.binaries.find(id(binHandle));
    if (found == runtime.binaries.end()) {
      throw Failure{ACL_ERROR_RT_INVALID_HANDLE, "binHandle: " + hex(binHandle) + " is no binary, or was unloaded"};
    }
    const uint64_t address = emulator::find_function(found->second.library, kernelName);
    if (address == 0) {
      throw Failure{ACL_ERROR_RT_KERNEL_LOOKUP, std::string("kernelName: no function ") + kernelName + " in " +
                                                    found->second.path +
                                                    " (a kernel is extern \"C\" __global__ __aicore__)"};
    }
    const uint64_t handle = runtime.new_handle();
    runtime.functions[handle] = {found->first, address, kernelName};
    *funcHandle = handle_of(handle);
  });
}

aclError aclrtLaunchKernel(aclrtFuncHandle funcHandle, uint32_t blockDim, const void* argsData, size_t argsSize,
                           aclrtStream stream) {
  return entry("aclrtLaunchKernel", Needs::context, [&](Runtime& runtime) {
    launch_function(runtime, funcHandle, blockDim, words_of(argsData, argsSize), stream);
  });
}

aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle funcHandle, uint32_t blockDim, aclrtStream stream,
                                       aclrtLaunchKernelCfg* cfg, void* hostArgs, size_t argsSize,
                                       aclrtPlaceHolderInfo*, size_t placeHolderNum) {
  return entry("aclrtLaunchKernelWithHostArgs", Needs::context, [&](Runtime& runtime) {
    refuse_config(cfg);
    if (placeHolderNum != 0) {
      throw Failure{ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                    "placeHolderNum: expected 0, as the emulator has no placeholders"};
    }
    launch_function(runtime, funcHandle, blockDim, words_of(hostArgs, argsSize), stream);
  });
}

aclError aclrtKernelArgsInit(aclrtFuncHandle funcHandle, aclrtArgsHandle* argsHandle) {
  return entry("aclrtKernelArgsInit", Needs::context, [&](Runtime& runtime) {
    need(argsHandle, "argsHandle");
    function_of(runtime, funcHandle);
    const uint64_t handle = runtime.new_handle();
    runtime.arguments[handle] = {};
    *argsHandle = handle_of(handle);
  });
}

aclError aclrtKernelArgsAppend(aclrtArgsHandle argsHandle, void* param, size_t paramSize,
                               aclrtParamHandle* paramHandle) {
  return entry("aclrtKernelArgsAppend", Needs::context, [&](Runtime& runtime) {
    need(param, "param");
    Arguments& arguments = arguments_of(runtime, argsHandle);
    if (paramSize == 0 || paramSize > kWord) {
      throw Failure{ACL_ERROR_RT_PARAM_INVALID,
                    "paramSize: expected 1 to 8, a device address or an integer, got " + std::to_string(paramSize)};
    }
    if (arguments.final) throw Failure{ACL_ERROR_RT_PARAM_INVALID, "argsHandle: aclrtKernelArgsFinalize closed it"};
    uint64_t word = 0;
    memcpy(&word, param, paramSize);
    arguments.words.push_back(word);
    if (paramHandle != nullptr) *paramHandle = handle_of(runtime.new_handle());
  });
}

aclError aclrtKernelArgsFinalize(aclrtArgsHandle argsHandle) {
  return entry("aclrtKernelArgsFinalize", Needs::context,
               [&](Runtime& runtime) { arguments_of(runtime, argsHandle).final = true; });
}

aclError aclrtLaunchKernelWithConfig(aclrtFuncHandle funcHandle, uint32_t blockDim, aclrtStream stream,
                                     aclrtLaunchKernelCfg* cfg, aclrtArgsHandle argsHandle, void*) {
  return entry("aclrtLaunchKernelWithConfig", Needs::context, [&](Runtime& runtime) {
    refuse_config(cfg);
    const Arguments& arguments = arguments_of(runtime, argsHandle);
    if (!arguments.final) throw Failure{ACL_ERROR_RT_PARAM_INVALID, "argsHandle: aclrtKernelArgsFinalize comes first"};
    launch_function(runtime, funcHandle, blockDim, arguments.words, stream);
  });
}

aclError hajax_sim_launch_words(uint64_t function, const char* kernel, uint32_t blocks, aclrtStream stream,
                                const uint64_t* words, size_t count) {
  return entry(kernel == nullptr ? "aclrtlaunch" : kernel, Needs::context, [&](Runtime& runtime) {
    need(kernel, "kernel");
    if (count > 0) need(words, "words");
    runtime.launch(function, kernel, blocks, std::vector<uint64_t>(words, words + count), runtime.stream(stream));
  });
}

void* hajax_sim_gm_alloc(size_t size) {
  int32_t device = 0;
  void* memory = nullptr;
  if (aclrtGetDevice(&device) != ACL_SUCCESS && aclrtSetDevice(0) != ACL_SUCCESS) return nullptr;
  if (aclrtMalloc(&memory, size, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) return nullptr;
  aclrtMemset(memory, size, 0, size);  // the program writes it behind the runtime's back: all of it counts as written
  return memory;
}

void hajax_sim_gm_free(void* pointer) { aclrtFree(pointer); }

void hajax_sim_run_or_exit(uint64_t function, const char* kernel, uint32_t blocks, const uint64_t* words,
                           size_t count) {
  if (hajax_sim_launch_words(function, kernel, blocks, nullptr, words, count) == ACL_SUCCESS &&
      aclrtSynchronizeStream(nullptr) == ACL_SUCCESS) {
    return;
  }
  const char* text = aclGetRecentErrMsg();
  fprintf(stderr, "%s\n", text == nullptr ? "failed" : text);
  exit(EXIT_FAILURE);
}
