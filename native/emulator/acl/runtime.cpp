#include "native/emulator/acl/runtime.h"

#include <stdio.h>
#include <stdlib.h>

#include <new>
#include <stdexcept>
#include <thread>
#include <utility>

#include "native/emulator/acl/kernel.h"
#include "native/emulator/timing/targets.h"

namespace hajax::emulator::acl {

thread_local uint64_t thread_context = 0;

namespace {

constexpr int kMostThreads = 256;

thread_local Runtime* session_runtime = nullptr;

thread_local std::string recent;  // not yet asked for
thread_local std::string shown;   // what aclGetRecentErrMsg returned last

std::string variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

bool flag(const char* name) {
  const std::string value = variable(name);
  if (value.empty() || value == "0") return false;
  if (value == "1") return true;
  throw std::invalid_argument(std::string(name) + ": expected 0 or 1, got \"" + value + "\"");
}

int threads() {
  const std::string value = variable("HAJAX_SIM_THREADS");
  if (value.empty()) {
    const unsigned available = std::thread::hardware_concurrency();
    return available == 0 ? 1 : static_cast<int>(available);
  }
  const bool number = value.size() <= 3 && value.find_first_not_of("0123456789") == std::string::npos;
  const int count = number ? atoi(value.c_str()) : 0;
  if (count < 1 || count > kMostThreads) {
    throw std::invalid_argument("HAJAX_SIM_THREADS: expected 1 to " + std::to_string(kMostThreads) + ", got \"" +
                                value + "\"");
  }
  return count;
}

// "Ascend310P1" of "ascend310p1".
std::string soc_name_of(const std::string& target) {
  std::string name = target;
  for (char& c : name) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  const std::string brand = "ASCEND";
  return name.compare(0, brand.size(), brand) == 0 ? "Ascend" + name.substr(brand.size()) : name;
}

aclError failed(const char* function, aclError code, const std::string& text) {
  recent = std::string(function) + ": " + text;
  return code;
}

}  // namespace

std::string hex(const void* pointer) {
  char text[32];
  snprintf(text, sizeof text, "%p", pointer);
  return text;
}

uint64_t id(const void* handle) { return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(handle)); }
void* handle_of(uint64_t id) { return reinterpret_cast<void*>(static_cast<uintptr_t>(id)); }

void need(const void* pointer, const char* name) {
  if (pointer == nullptr) throw Failure{ACL_ERROR_INVALID_PARAM, std::string(name) + ": expected an address, got null"};
}

Runtime& Runtime::instance() {
  if (session_runtime != nullptr) return *session_runtime;
  static auto* const runtime = new Runtime();
  return *runtime;
}

RunOptions environment_options() {
  RunOptions how;
  how.core.threads = threads();
  how.core.check_races = how.core.check_written = !flag("HAJAX_SIM_FAST");
  how.core.auto_barriers = flag("HAJAX_SIM_AUTO_BARRIERS");
  how.warm_l2 = true;
  return how;
}

Session::Session(const hj_target& chip, const RunOptions& how)
    : own_(chip, how), before_(session_runtime), context_before_(thread_context) {
  session_runtime = &own_;
  thread_context = 0;
}

Session::~Session() {
  session_runtime = before_;
  thread_context = context_before_;
  own_.close_device();
}

Runtime::Runtime(const hj_target& chip, const RunOptions& how)
    : target(&chip), soc_name("emulated"), options(how), keep_runs(true) {}

Runtime::Runtime() {
  try {
    const std::string name = variable("HAJAX_SIM_TARGET").empty() ? "ascend310p1" : variable("HAJAX_SIM_TARGET");
    target = built_in_target(name.c_str());
    if (target == nullptr) {
      std::string known;
      for (const char* one : target_names()) known += (known.empty() ? "" : ", ") + std::string(one);
      throw std::invalid_argument("HAJAX_SIM_TARGET: expected one of " + known + ", got \"" + name + "\"");
    }
    soc_name = soc_name_of(name);
    options = environment_options();
    try {
      injection.set(variable("HAJAX_SIM_INJECT"));
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(std::string("HAJAX_SIM_INJECT: ") + error.what());
    }
  } catch (const std::invalid_argument& error) {
    settings_error = error.what();
  }
}

void Runtime::open_device() {
  if (device == nullptr) {
    device = std::make_unique<Device>(*target);
    free_at = 0;
  }
}

void Runtime::close_device() {
  while (!contexts.empty()) drop_context(contexts.begin()->first);
  functions.clear();
  arguments.clear();
  for (auto& [handle, binary] : binaries) close_library(binary.library);
  binaries.clear();
  events.clear();
  device.reset();
  references = 0;
}

uint64_t Runtime::new_context() {
  const uint64_t handle = new_handle();
  auto stream = std::make_shared<Stream>();
  stream->handle = new_handle();
  stream->context = handle;
  contexts[handle] = {stream};
  return handle;
}

void Runtime::drop_context(uint64_t handle) {
  for (auto at = streams.begin(); at != streams.end();)
    at = at->second->context == handle ? streams.erase(at) : std::next(at);
  contexts.erase(handle);
  if (handle == default_context) default_context = 0;
}

uint64_t Runtime::current_context() const {
  if (thread_context == 0) {
    throw Failure{ACL_ERROR_RT_CONTEXT_NULL,
                  "this thread has no context: aclrtSetDevice or aclrtSetCurrentContext comes first"};
  }
  if (contexts.count(thread_context) == 0) {
    throw Failure{ACL_ERROR_RT_CONTEXT_NULL, "this thread's context was destroyed, or its device reset"};
  }
  return thread_context;
}

std::shared_ptr<Stream> Runtime::shared_stream(aclrtStream handle) {
  const uint64_t context = current_context();
  if (handle == nullptr) return contexts.at(context).default_stream;
  const auto found = streams.find(id(handle));
  if (found == streams.end()) {
    throw Failure{ACL_ERROR_RT_INVALID_HANDLE, "stream: " + hex(handle) + " is no stream, or was destroyed"};
  }
  if (found->second->context != context) {
    throw Failure{ACL_ERROR_RT_STREAM_CONTEXT,
                  "stream: " + hex(handle) + " belongs to another context than this thread's"};
  }
  return found->second;
}

Stream& Runtime::stream(aclrtStream handle) { return *shared_stream(handle); }

std::shared_ptr<Event> Runtime::event(aclrtEvent handle) {
  const auto found = events.find(id(handle));
  if (found == events.end()) {
    throw Failure{ACL_ERROR_RT_INVALID_HANDLE, "event: " + hex(handle) + " is no event, or was destroyed"};
  }
  return found->second;
}

void Runtime::advance(Stream& stream, const std::function<bool()>& enough) {
  if (stream.running) {
    throw Failure{ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "streams wait for one another's events in a circle"};
  }
  stream.running = true;
  while (!stream.tasks.empty() && !enough()) {
    const Task task = std::move(stream.tasks.front());
    stream.tasks.pop_front();
    try {
      task.work(stream);
    } catch (const Failure& failure) {
      if (!stream.failure) stream.failure = failure;
    } catch (const std::exception& error) {
      if (!stream.failure) stream.failure = Failure{ACL_ERROR_RT_INTERNAL_ERROR, error.what()};
    }
  }
  stream.running = false;
}

void Runtime::finish(Stream& stream) {
  advance(stream, [] { return false; });
  if (stream.failure) {
    const Failure failure = *std::exchange(stream.failure, std::nullopt);
    throw Failure(failure);
  }
}

void Runtime::reach(Event& event, uint64_t ticket) {
  if (ticket == 0) ticket = event.latest;
  if (ticket == 0) throw Failure{ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "waits for an event that nothing records"};
  if (event.reached >= ticket) return;
  const std::shared_ptr<Stream> on = event.on.lock();
  if (on != nullptr) advance(*on, [&event, ticket] { return event.reached >= ticket; });
  if (event.reached < ticket) {
    throw Failure{ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "waits for an event whose stream was destroyed before it got there"};
  }
}

void Runtime::launch(uint64_t function, const std::string& kernel, uint32_t blocks, std::vector<uint64_t> words,
                     Stream& stream) {
  try {
    device->check_launch(function, blocks, words.size());
  } catch (const std::invalid_argument& error) {
    throw Failure{ACL_ERROR_RT_PARAM_INVALID, "kernel " + kernel + ": " + error.what()};
  }
  if (injection.hit(Site::launch))
    throw Failure{ACL_ERROR_RT_INTERNAL_ERROR, "kernel " + kernel + ": injected launch error"};
  if (injection.hit(Site::device_lost)) lost = true;  // this call still returns: the host cannot know yet
  const int count = static_cast<int>(blocks);
  stream.tasks.push_back({[this, function, kernel, count, words = std::move(words)](Stream& on) {
    run_kernel(function, kernel, count, words, on);
  }});
}

void Runtime::run_kernel(uint64_t function, const std::string& kernel, int blocks, const std::vector<uint64_t>& words,
                         Stream& stream) {
  if (injection.hit(Site::execute)) {
    throw Failure{ACL_ERROR_RT_AICORE_EXCEPTION, "kernel " + kernel + ": injected exception of the AI core"};
  }
  if (keep_runs && !runs.empty() && runs.back()->result.fault) return;
  std::unique_ptr<Run> run = device->run(function, kernel, blocks, words, options);
  const double microseconds = run->timing[TimingValue::microseconds];
  const auto fault = run->result.fault;
  const std::string text = run->fault;
  if (keep_runs) runs.push_back(std::move(run));
  if (fault) {
    const bool endless = fault->check == Check::deadlock;
    throw Failure{endless ? ACL_ERROR_RT_AICORE_TIMEOUT : ACL_ERROR_RT_AICORE_EXCEPTION, text};
  }
  const double start = stream.microseconds > free_at ? stream.microseconds : free_at;
  stream.microseconds = free_at = start + microseconds;
}

aclError entry(const char* function, Needs needs, const std::function<void(Runtime&)>& body) {
  try {
    Runtime& runtime = Runtime::instance();
    const std::lock_guard guard(runtime.lock);
    if (!runtime.settings_error.empty()) throw Failure{ACL_ERROR_INVALID_PARAM, runtime.settings_error};
    if (runtime.lost && needs != Needs::process)
      throw Failure{ACL_ERROR_RT_LOST_HEARTBEAT, "the device is lost (injected by HAJAX_SIM_INJECT)"};
    if (needs == Needs::context) runtime.current_context();
    body(runtime);
    return ACL_SUCCESS;
  } catch (const Failure& failure) {
    return failed(function, failure.code, failure.text);
  } catch (const std::bad_alloc&) {
    return failed(function, ACL_ERROR_BAD_ALLOC, "out of host memory");
  } catch (const std::exception& error) {
    return failed(function, ACL_ERROR_INTERNAL_ERROR, error.what());
  }
}

}  // namespace hajax::emulator::acl

const char* aclGetRecentErrMsg() {
  using namespace hajax::emulator::acl;
  if (recent.empty()) return nullptr;
  shown = std::move(recent);
  recent.clear();
  return shown.c_str();
}
