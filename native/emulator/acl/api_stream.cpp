// Streams and events.
#include <utility>

#include "native/emulator/acl/runtime.h"

using namespace hajax::emulator::acl;

namespace {

constexpr double kMicrosecondsPerMillisecond = 1e3;

bool never() { return false; }

aclError create_stream(const char* function, aclrtStream* stream) {
  return entry(function, Needs::context, [&](Runtime& runtime) {
    need(stream, "stream");
    auto made = std::make_shared<Stream>();
    made->handle = runtime.new_handle();
    made->context = runtime.current_context();
    runtime.streams[made->handle] = made;
    *stream = handle_of(made->handle);
  });
}

void refuse_default(aclrtStream stream) {
  if (stream == nullptr)
    throw Failure{ACL_ERROR_INVALID_PARAM, "stream: the default stream goes with its context, got null"};
}

aclError synchronize_stream(const char* function, aclrtStream stream, int32_t timeout) {
  return entry(function, Needs::context, [&](Runtime& runtime) {
    if (timeout < -1 || timeout == 0) {
      throw Failure{ACL_ERROR_INVALID_PARAM,
                    "timeout: expected -1 or milliseconds from 1, got " + std::to_string(timeout)};
    }
    const std::shared_ptr<Stream> on = runtime.shared_stream(stream);
    runtime.finish(*on);
  });
}

// Every stream of the thread's context runs to its end; the first failure found is the one returned, and all are
// forgotten.
aclError synchronize_device(const char* function) {
  return entry(function, Needs::context, [&](Runtime& runtime) {
    const uint64_t context = runtime.current_context();
    std::vector<std::shared_ptr<Stream>> all{runtime.contexts.at(context).default_stream};
    for (const auto& [handle, stream] : runtime.streams) {
      if (stream->context == context) all.push_back(stream);
    }
    for (const auto& stream : all) runtime.advance(*stream, never);
    std::optional<Failure> first;
    for (const auto& stream : all) {
      if (!first) first = stream->failure;
      stream->failure.reset();
    }
    if (first) throw Failure(*first);
  });
}

aclError create_event(const char* function, aclrtEvent* event) {
  return entry(function, Needs::context, [&](Runtime& runtime) {
    need(event, "event");
    auto made = std::make_shared<Event>();
    made->handle = runtime.new_handle();
    runtime.events[made->handle] = made;
    *event = handle_of(made->handle);
  });
}

// Whether the latest record has run; a device has had the time by the time the host asks.
bool complete(Runtime& runtime, Event& event) {
  if (event.latest == 0) return false;
  runtime.reach(event, event.latest);
  return true;
}

}  // namespace

aclError aclrtCreateStream(aclrtStream* stream) { return create_stream("aclrtCreateStream", stream); }
aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t, uint32_t) {
  return create_stream("aclrtCreateStreamWithConfig", stream);
}

aclError aclrtDestroyStream(aclrtStream stream) {
  return entry("aclrtDestroyStream", Needs::context, [&](Runtime& runtime) {
    refuse_default(stream);
    const std::shared_ptr<Stream> on = runtime.shared_stream(stream);
    runtime.streams.erase(on->handle);
    runtime.finish(*on);
  });
}

aclError aclrtDestroyStreamForce(aclrtStream stream) {
  return entry("aclrtDestroyStreamForce", Needs::context, [&](Runtime& runtime) {
    refuse_default(stream);
    runtime.streams.erase(runtime.shared_stream(stream)->handle);
  });
}

aclError aclrtSynchronizeStream(aclrtStream stream) { return synchronize_stream("aclrtSynchronizeStream", stream, -1); }
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
  return synchronize_stream("aclrtSynchronizeStreamWithTimeout", stream, timeout);
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  return entry("aclrtStreamQuery", Needs::context, [&](Runtime& runtime) {
    need(status, "status");
    const std::shared_ptr<Stream> on = runtime.shared_stream(stream);
    runtime.advance(*on, never);  // failures stay for the next wait
    *status = ACL_STREAM_STATUS_COMPLETE;
  });
}

aclError aclrtSynchronizeDevice() { return synchronize_device("aclrtSynchronizeDevice"); }
aclError aclrtSynchronizeDeviceWithTimeout(int32_t) { return synchronize_device("aclrtSynchronizeDeviceWithTimeout"); }

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  return entry("aclrtStreamWaitEvent", Needs::context, [&](Runtime& runtime) {
    Stream& on = runtime.stream(stream);
    const std::shared_ptr<Event> what = runtime.event(event);
    const uint64_t ticket = what->latest;
    on.tasks.push_back({[&runtime, what, ticket](Stream& self) {
      runtime.reach(*what, ticket);
      if (what->microseconds > self.microseconds) self.microseconds = what->microseconds;
    }});
  });
}

aclError aclrtCreateEvent(aclrtEvent* event) { return create_event("aclrtCreateEvent", event); }
aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t) {
  return create_event("aclrtCreateEventWithFlag", event);
}
aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t) {
  return create_event("aclrtCreateEventExWithFlag", event);
}

aclError aclrtDestroyEvent(aclrtEvent event) {
  return entry("aclrtDestroyEvent", Needs::context, [&](Runtime& runtime) {
    need(event, "event");
    runtime.events.erase(runtime.event(event)->handle);  // queued work keeps its own hold of it
  });
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  return entry("aclrtRecordEvent", Needs::context, [&](Runtime& runtime) {
    need(event, "event");
    const std::shared_ptr<Stream> on = runtime.shared_stream(stream);
    const std::shared_ptr<Event> what = runtime.event(event);
    const uint64_t ticket = ++what->tickets;
    what->latest = ticket;
    what->on = on;
    on->tasks.push_back({[what, ticket](Stream& self) {
      what->reached = ticket;
      what->microseconds = self.microseconds;
    }});
  });
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
  return entry("aclrtResetEvent", Needs::context, [&](Runtime& runtime) {
    need(event, "event");
    runtime.stream(stream);
    runtime.event(event)->latest = 0;
  });
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status) {
  return entry("aclrtQueryEvent", Needs::context, [&](Runtime& runtime) {
    need(event, "event");
    need(status, "status");
    *status = complete(runtime, *runtime.event(event)) ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
  });
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  return entry("aclrtQueryEventStatus", Needs::context, [&](Runtime& runtime) {
    need(event, "event");
    need(status, "status");
    *status = complete(runtime, *runtime.event(event)) ? ACL_EVENT_RECORDED_STATUS_COMPLETE
                                                       : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  });
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
  return entry("aclrtSynchronizeEvent", Needs::context, [&](Runtime& runtime) {
    need(event, "event");
    const std::shared_ptr<Event> what = runtime.event(event);
    runtime.reach(*what, what->latest);
    const std::shared_ptr<Stream> on = what->on.lock();
    if (on != nullptr && on->failure) throw Failure(*std::exchange(on->failure, std::nullopt));
  });
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
  return entry("aclrtEventElapsedTime", Needs::context, [&](Runtime& runtime) {
    need(ms, "ms");
    need(startEvent, "startEvent");
    need(endEvent, "endEvent");
    const Event& start = *runtime.event(startEvent);
    const Event& end = *runtime.event(endEvent);
    for (const Event* one : {&start, &end}) {
      if (one->latest == 0 || one->reached < one->latest) {
        throw Failure{ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                      "an event was not recorded, or its stream has not got there yet"};
      }
    }
    if (end.microseconds < start.microseconds) {
      throw Failure{ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, "the end event lies before the start event"};
    }
    *ms = static_cast<float>((end.microseconds - start.microseconds) / kMicrosecondsPerMillisecond);
  });
}
