#include "core.h"

#include <nanobind/stl/string_view.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/system/stop_host.h"

namespace lacuna::python {

nb::dlpack::dtype dlpack_of(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return nb::dtype<uint8_t>();
    case DType::u16:
    case DType::bf16:
      return nb::dtype<uint16_t>();  // NumPy has no name for bf16
    case DType::u32:
      return nb::dtype<uint32_t>();
    case DType::u64:
      return nb::dtype<uint64_t>();
    case DType::i32:
      return nb::dtype<int32_t>();
    case DType::i64:
      return nb::dtype<int64_t>();
    case DType::f32:
      return nb::dtype<float>();
    case DType::f64:
      return nb::dtype<double>();
  }
  throw Error("an array of an unknown type");
}

namespace {

DType dtype_from(nb::dlpack::dtype dtype, const char* what) {
  for (const DType ours : {DType::u8, DType::u16, DType::u32, DType::u64, DType::i32, DType::i64,
                           DType::f32, DType::f64})
    if (dlpack_of(ours) == dtype) return ours;
  throw Error(
      "{} has a dtype that a screen does not hold; give float32, float64, int32, int64 or "
      "unsigned integers",
      what);
}

// How far the work has come, written by its thread and read by the one that waits.
class SeenProgress : public Progress {
 public:
  struct State {
    std::string task, unit;
    uint64_t done = 0, total = 0;
  };

  void begin(std::string_view task, uint64_t total, std::string_view unit) override {
    const std::lock_guard lock(mutex_);
    state_ = {std::string(task), std::string(unit), 0, total};
  }
  void advance(uint64_t done) override {
    const std::lock_guard lock(mutex_);
    state_.done = done;
  }
  void end() override {
    const std::lock_guard lock(mutex_);
    state_.done = state_.total;
  }
  State state() const {
    const std::lock_guard lock(mutex_);
    return state_;
  }

 private:
  mutable std::mutex mutex_;
  State state_;
};

void show(const nb::object& progress, const SeenProgress& seen) {
  if (progress.is_none()) return;
  const SeenProgress::State state = seen.state();
  if (!state.task.empty()) progress.attr("show")(state.task, state.done, state.total, state.unit);
}

// A thread, and what it threw.
class Work {
 public:
  explicit Work(const std::function<void()>& call)
      : thread_([this, call] {
          try {
            call();
          } catch (...) {
            error_ = std::current_exception();
          }
          const std::lock_guard lock(mutex_);
          has_ended_ = true;
          ended_.notify_all();
        }) {}
  ~Work() {
    if (thread_.joinable()) thread_.join();
  }

  bool wait() {  // a tenth of a second at most; true: it has ended
    std::unique_lock lock(mutex_);
    return ended_.wait_for(lock, std::chrono::milliseconds(100), [&] { return has_ended_; });
  }
  void finish() {
    thread_.join();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace

nb::object numpy_view(const Array& array) {
  auto* kept = new Array(array);
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<Array*>(p); });
  std::vector<size_t> shape(array.shape().begin(), array.shape().end());
  const void* data = kept->bytes().data();
  return nb::cast(nb::ndarray<nb::numpy, nb::ro>(const_cast<void*>(data), shape.size(),
                                                 shape.data(), owner, nullptr,
                                                 dlpack_of(array.dtype())));
}

Array copy_of(const nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>& values, const char* what) {
  const DType dtype = dtype_from(values.dtype(), what);
  Shape shape;
  for (size_t axis = 0; axis < values.ndim(); ++axis) shape.push_back(values.shape(axis));
  const auto* bytes = static_cast<const std::byte*>(values.data());
  const auto owner =
      std::make_shared<std::vector<std::byte>>(bytes, bytes + values.size() * item_size(dtype));
  return Array(dtype, std::move(shape), owner->data(), owner);
}

nb::object to_python(const Json& json) {
  return nb::module_::import_("json").attr("loads")(json.dump());
}

Json from_python(const nb::handle& object) {
  const nb::object text = nb::module_::import_("json").attr("dumps")(object);
  return Json::parse(nb::cast<std::string>(text));
}

void run_long(const nb::object& progress, const std::function<void(Progress&)>& work) {
  SeenProgress seen;
  Work running([&] { work(seen); });
  bool interrupted = false;
  while (true) {
    bool ended;
    {
      const nb::gil_scoped_release release;
      ended = running.wait();
    }
    if (ended) break;
    if (!interrupted && PyErr_CheckSignals() != 0) {
      interrupted = true;  // the exception stays set until the work has stopped
      ask_to_stop();
    }
    if (!interrupted) show(progress, seen);
  }
  if (interrupted) take_back_stop();
  try {
    running.finish();
  } catch (const Stopped&) {
    if (!interrupted) throw;
  }
  if (interrupted) throw nb::python_error();
  show(progress, seen);
}

}  // namespace lacuna::python
