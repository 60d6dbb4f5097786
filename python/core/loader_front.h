// What the loaders of lacuna._core share, whatever they load: arrays over a batch that the caller
// keeps, the place where a loader stands, and its threads, which do not follow into a fork.
#pragma once

#include <unistd.h>

#include <atomic>
#include <memory>

#include "core.h"
#include "lacuna/core/error.h"
#include "lacuna/load/loader.h"

namespace lacuna::python {

// Arrays over a batch's own buffers, which live until the last of the arrays is gone.
template <class Batch>
class BatchArrays {
 public:
  explicit BatchArrays(BatchRef<Batch> batch)
      : kept_(new BatchRef<Batch>(std::move(batch))),
        owner_(kept_, [](void* p) noexcept { delete static_cast<BatchRef<Batch>*>(p); }) {}

  const Batch& batch() const { return **kept_; }
  template <class T>
  nb::object view(const T* data, std::initializer_list<size_t> shape) const {
    return view(data, shape, nb::dtype<T>());
  }
  nb::object view(const void* data, std::initializer_list<size_t> shape,
                  nb::dlpack::dtype dtype) const {
    return nb::cast(nb::ndarray<nb::numpy>(const_cast<void*>(data), shape.size(), shape.begin(),
                                           owner_, nullptr, dtype));
  }

 private:
  BatchRef<Batch>* kept_;
  nb::capsule owner_;
};

// One thread at a time works with a loader. A second that comes meanwhile (the first has released
// Python's lock) is told so, instead of breaking what the first does.
class Turn {
 public:
  explicit Turn(std::atomic_flag& taken) : taken_(taken) {
    if (taken_.test_and_set())
      throw Error("two threads use this Loader at the same time; give each a Loader of its own");
  }
  ~Turn() { taken_.clear(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::atomic_flag& taken_;
};

// Batches: a lacuna::Loader. A class of its own derives from it and calls start().
template <class Batches>
class LoaderFront {
 public:
  using Batch = typename Batches::Batch;

  LoaderFront() : process_(::getpid()) {}
  ~LoaderFront() {
    // The threads of a loader do not follow into a forked process: there is nothing to join.
    if (!is_own_process()) (void)loader_.release();
  }
  LoaderFront(const LoaderFront&) = delete;
  LoaderFront& operator=(const LoaderFront&) = delete;

  uint64_t batches() const { return loader_->order().batches(); }
  nb::object state() {
    const Turn turn(taken_);
    return to_python(to_json(loader_->state()));
  }
  void seek(const nb::object& state) {
    const LoaderState to = loader_state_from_json(from_python(state));
    Batches& loader = own_loader();
    const Turn turn(taken_);
    const nb::gil_scoped_release release;
    loader.seek(to);
  }

 protected:
  void start(std::unique_ptr<Batches> loader) { loader_ = std::move(loader); }
  const Batches& loader() const { return *loader_; }
  BatchRef<Batch> take() {  // empty at the end of an epoch
    Batches& loader = own_loader();
    const Turn turn(taken_);
    const nb::gil_scoped_release release;
    return loader.next();
  }

 private:
  bool is_own_process() const { return ::getpid() == process_; }
  Batches& own_loader() {
    if (!is_own_process())
      throw Error(
          "a Loader does not work in a forked process, because its threads stayed behind; "
          "make it there, or start processes with spawn");
    return *loader_;
  }

  pid_t process_;
  std::atomic_flag taken_;
  std::unique_ptr<Batches> loader_;
};

}  // namespace lacuna::python
