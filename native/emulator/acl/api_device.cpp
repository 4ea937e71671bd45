// aclInit and what asks about the device, and contexts.
#include <fstream>

#include "native/emulator/acl/runtime.h"
#include "native/emulator/core/half.h"

using namespace hajax::emulator::acl;

namespace {

void check_device(int64_t device) {
  if (device != 0) {
    throw Failure{ACL_ERROR_RT_INVALID_DEVICEID,
                  "deviceId: expected 0, the only device, got " + std::to_string(device)};
  }
}

}  // namespace

aclError aclInit(const char* configPath) {
  return entry("aclInit", Needs::device, [&](Runtime& runtime) {
    if (runtime.initialised) throw Failure{ACL_ERROR_REPEAT_INITIALIZE, "called already, with no aclFinalize between"};
    if (configPath != nullptr && *configPath != '\0' && !std::ifstream(configPath)) {
      throw Failure{ACL_ERROR_INVALID_FILE, std::string("configPath: cannot read ") + configPath};
    }
    runtime.initialised = true;
    runtime.finalised = false;
  });
}

aclError aclFinalize() {
  return entry("aclFinalize", Needs::process, [](Runtime& runtime) {
    if (runtime.finalised) throw Failure{ACL_ERROR_REPEAT_FINALIZE, "called already"};
    if (!runtime.initialised) throw Failure{ACL_ERROR_UNINITIALIZE, "aclInit comes first"};
    runtime.close_device();
    runtime.initialised = false;
    runtime.finalised = true;
    runtime.lost = false;
  });
}

aclError aclrtSetDevice(int32_t deviceId) {
  return entry("aclrtSetDevice", Needs::device, [&](Runtime& runtime) {
    check_device(deviceId);
    runtime.open_device();
    if (runtime.default_context == 0) runtime.default_context = runtime.new_context();
    ++runtime.references;
    thread_context = runtime.default_context;
  });
}

aclError aclrtResetDevice(int32_t deviceId) {
  return entry("aclrtResetDevice", Needs::device, [&](Runtime& runtime) {
    check_device(deviceId);
    if (runtime.device == nullptr) throw Failure{ACL_ERROR_RT_CONTEXT_NULL, "no aclrtSetDevice went before"};
    if (--runtime.references <= 0) runtime.close_device();
  });
}

aclError aclrtGetDevice(int32_t* deviceId) {
  return entry("aclrtGetDevice", Needs::context, [&](Runtime&) {
    need(deviceId, "deviceId");
    *deviceId = 0;
  });
}

aclError aclrtGetDeviceCount(uint32_t* count) {
  return entry("aclrtGetDeviceCount", Needs::device, [&](Runtime&) {
    need(count, "count");
    *count = 1;
  });
}

aclError aclrtGetRunMode(aclrtRunMode* runMode) {
  return entry("aclrtGetRunMode", Needs::device, [&](Runtime&) {
    need(runMode, "runMode");
    *runMode = ACL_HOST;
  });
}

const char* aclrtGetSocName() {
  const char* name = nullptr;
  entry("aclrtGetSocName", Needs::device, [&name](Runtime& runtime) { name = runtime.soc_name.c_str(); });
  return name;
}

aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t* value) {
  return entry("aclrtGetDeviceInfo", Needs::device, [&](Runtime& runtime) {
    check_device(deviceId);
    need(value, "value");
    switch (attr) {
      case ACL_DEV_ATTR_AICORE_CORE_NUM:
      case ACL_DEV_ATTR_CUBE_CORE_NUM:
        *value = runtime.target->ai_cores;
        return;
      case ACL_DEV_ATTR_VECTOR_CORE_NUM:
        *value = runtime.target->vector_cores;
        return;
      case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
        *value = runtime.target->gm_bytes;
        return;
      case ACL_DEV_ATTR_L2_CACHE_SIZE:
        *value = runtime.target->l2_bytes;
        return;
      default:
        throw Failure{ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                      "attr: nothing is known of attribute " + std::to_string(static_cast<int>(attr))};
    }
  });
}

aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t* value) {
  return entry("aclGetDeviceCapability", Needs::device, [&](Runtime& runtime) {
    check_device(deviceId);
    need(value, "value");
    switch (deviceInfo) {
      case ACL_DEVICE_INFO_AI_CORE_NUM:
        *value = runtime.target->ai_cores;
        return;
      case ACL_DEVICE_INFO_VECTOR_CORE_NUM:
        *value = runtime.target->vector_cores;
        return;
      case ACL_DEVICE_INFO_L2_SIZE:
        *value = runtime.target->l2_bytes;
        return;
      default:
        throw Failure{ACL_ERROR_INVALID_PARAM,
                      "deviceInfo: nothing is known of attribute " + std::to_string(static_cast<int>(deviceInfo))};
    }
  });
}

aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
  return entry("aclrtCreateContext", Needs::device, [&](Runtime& runtime) {
    need(context, "context");
    check_device(deviceId);
    runtime.open_device();
    thread_context = runtime.new_context();
    *context = handle_of(thread_context);
  });
}

aclError aclrtDestroyContext(aclrtContext context) {
  return entry("aclrtDestroyContext", Needs::device, [&](Runtime& runtime) {
    if (runtime.contexts.count(id(context)) == 0) {
      throw Failure{ACL_ERROR_RT_CONTEXT_NULL, "context: " + hex(context) + " is no context, or was destroyed"};
    }
    if (id(context) == runtime.default_context) {
      throw Failure{ACL_ERROR_INVALID_PARAM, "context: that of aclrtSetDevice goes with aclrtResetDevice"};
    }
    runtime.drop_context(id(context));
    if (thread_context == id(context)) thread_context = 0;
  });
}

aclError aclrtSetCurrentContext(aclrtContext context) {
  return entry("aclrtSetCurrentContext", Needs::device, [&](Runtime& runtime) {
    if (runtime.contexts.count(id(context)) == 0) {
      throw Failure{ACL_ERROR_RT_CONTEXT_NULL, "context: " + hex(context) + " is no context, or was destroyed"};
    }
    thread_context = id(context);
  });
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
  return entry("aclrtGetCurrentContext", Needs::context, [&](Runtime&) {
    need(context, "context");
    *context = handle_of(thread_context);
  });
}

float aclFloat16ToFloat(aclFloat16 value) { return hajax::emulator::half_to_float(value); }
aclFloat16 aclFloatToFloat16(float value) { return hajax::emulator::half_bits(value); }
