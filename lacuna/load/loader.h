// Batches in a given order, made ahead of time by worker threads.
//
//   Loader loader(ScreenSource(...), {.order = {.global_batch = 28, .seed = 1}, .threads = 2});
//   for (int epoch = 0; epoch < 10; ++epoch)
//     while (auto batch = loader.next()) train(*batch);
//
// A Source says what a batch is and how to fill one; the same loader serves all of them:
//   using Batch
//       default constructible; owns its buffers
//   uint64_t size() const
//       how many samples there are; they are numbered from 0
//   void fill(std::span<const uint64_t> samples, Batch& out) const
//       replaces the contents of `out`, reusing its capacity; called by several threads at once
//
// The order is Order unless named: Loader<RecordingSource, SessionOrder> (session_order.h) is given
// one that is made already. What a loader asks of one is batches(), largest_batch() and batch() as
// in order.h, and the functions state_at(), check_state() and with_seed() below.
//
// Batches are delivered strictly in order, and prefetching goes on across the end of an epoch. At
// most `prefetch` batches are made and not yet taken. A batch is handed out as a BatchRef: its
// contents never change while that lives, however long (also longer than the loader); its end
// returns the buffers to the loader's pool. A caller that keeps many at a time makes the pool grow;
// otherwise nothing is allocated once every buffer has held its largest batch.
//
// What fill() throws is thrown by next() at the batch where it happened; the loader stays there,
// and throws it again, until seek() moves it.
//
// One thread at a time calls next(), state() and seek(). stop() may be called from any thread, a
// BatchRef may end on any. The destructor stops and joins the workers, after the batch that each is
// making; no thread may be inside next() then.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/load/order.h"
#include "lacuna/store/directory.h"

namespace lacuna {

struct LoaderSettings {
  OrderSettings order;
  int threads = 2;          // 0: next() fills the batch itself
  uint64_t prefetch = 128;  // batches made and not yet taken, at most; small when batches are large
};
// The same for an order that is given as such.
struct LoaderThreads {
  int threads = 2;
  uint64_t prefetch = 128;
};

// Where a loader stands, to save in a checkpoint and go back to. Together with the rank it says
// which batch comes next. `samples`, `global_batch`, `shuffled` and `drawn` are there to be
// compared: a position means nothing in another order.
struct LoaderState {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t position = 0;  // batches of this epoch that next() has handed out
  uint64_t samples = 0;
  uint64_t global_batch = 0;
  bool shuffled = true;
  std::string drawn = {};  // how sessions are mixed, in words; empty where there are none

  bool operator==(const LoaderState&) const = default;
};
Json to_json(const LoaderState& state);
LoaderState loader_state_from_json(
    const Json& json);  // throws Error naming the member that is missing or wrong
LoaderState state_at(const Order& order, uint64_t epoch, uint64_t position);
// Throws Error when `state` was saved in another order than this one.
void check_state(const LoaderState& state, const Order& order);
inline Order with_seed(const Order& order, uint64_t seed) {
  OrderSettings settings = order.settings();
  settings.seed = seed;
  return Order(order.samples(), settings);
}

// throw_if_stopped() for use while waiting: how often that is depends on the machine, so StopAfter
// (core/system/stop.h) does not count it.
void throw_if_stopped_meanwhile();

// Buffers that are not in use. Shared by a loader and the batches it handed out.
template <class Batch>
class BatchPool {
 public:
  std::unique_ptr<Batch> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return make();
    std::unique_ptr<Batch> batch = std::move(free_.back());
    free_.pop_back();
    return batch;
  }

  void give_back(std::unique_ptr<Batch> batch) noexcept {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(batch));
  }

 private:
  std::unique_ptr<Batch> make() {
    free_.reserve(++made_);  // so that giving back never allocates
    return std::make_unique<Batch>();
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Batch>> free_;
  size_t made_ = 0;
};

// A batch in the caller's hands; empty (false) at the end of an epoch.
template <class Batch>
class BatchRef {
 public:
  BatchRef() = default;
  BatchRef(std::unique_ptr<Batch> batch, std::shared_ptr<BatchPool<Batch>> pool)
      : batch_(std::move(batch)), pool_(std::move(pool)) {}
  BatchRef(BatchRef&&) noexcept = default;
  BatchRef& operator=(BatchRef&& other) noexcept {
    std::swap(batch_, other.batch_);
    std::swap(pool_, other.pool_);
    other.reset();
    return *this;
  }
  ~BatchRef() { reset(); }

  explicit operator bool() const { return batch_ != nullptr; }
  const Batch& operator*() const { return *batch_; }
  const Batch* operator->() const { return batch_.get(); }
  void reset() {
    if (batch_) pool_->give_back(std::move(batch_));
    pool_.reset();
  }

 private:
  std::unique_ptr<Batch> batch_;
  std::shared_ptr<BatchPool<Batch>> pool_;
};

template <class Source, class OrderType = Order>
class Loader {
 public:
  using Batch = typename Source::Batch;

  Loader(Source source, const LoaderSettings& settings) requires std::same_as<OrderType, Order>
      : Loader(source, Order(source.size(), settings.order),
               {settings.threads, settings.prefetch}) {}
  Loader(Source source, OrderType order, const LoaderThreads& settings)
      : source_(std::move(source)), order_(std::move(order)), threads_(settings.threads) {
    if (settings.threads < 0) throw Error("{} loader threads: 0 or more", settings.threads);
    if (settings.prefetch == 0) throw Error("prefetch 0: a loader needs at least 1 batch");
    make_chunks(settings.prefetch);
    start();
  }
  ~Loader() { stop_and_join(); }
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch; an empty BatchRef at the end of an epoch, after which the next one begins.
  BatchRef<Batch> next() {
    if (position_ == order_.batches()) {
      ++epoch_;
      position_ = 0;
      return {};
    }
    Entry& entry = threads_ == 0 ? fill_entry_here() : wait_for_entry();
    if (entry.error) std::rethrow_exception(entry.error);
    std::unique_ptr<Batch> replacement = pool_->take();
    ++position_;
    ++taken_;
    return {std::exchange(entry.batch, std::move(replacement)), pool_};
  }

  LoaderState state() const { return state_at(order_, epoch_, position_); }
  // Goes to any place of any epoch, at once. The seed becomes that of the state; for the rest see
  // check_state().
  void seek(const LoaderState& state) {
    check_state(state, order_);
    stop_and_join();
    order_ = with_seed(order_, state.seed);
    epoch_ = state.epoch;
    position_ = state.position;
    start();
  }

  // Makes next() throw, also one that is waiting in another thread, and the workers end. seek()
  // starts again.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    room_.notify_all();
    filled_.notify_all();
  }

  const OrderType& order() const { return order_; }
  const Source& source() const { return source_; }

 private:
  struct Entry {
    std::unique_ptr<Batch> batch;
    std::exception_ptr error;
  };
  // Consecutive batches that one worker makes: what the threads hand each other, so that small
  // batches do not cost a lock and a wake-up each.
  struct Chunk {
    std::vector<Entry> entries;
    std::vector<uint64_t> samples;  // scratch: those of the entry being filled
    bool filled = false;
  };

  // A ring of chunks. Two a worker: one to fill while the other is being taken.
  void make_chunks(uint64_t prefetch) {
    constexpr uint64_t kEnough = 32;  // batches; more gain nothing and only delay the first one
    chunk_size_ = threads_ == 0 ? 1 : std::clamp<uint64_t>(prefetch / (2 * threads_), 1, kEnough);
    chunks_.resize(threads_ == 0 ? 1 : prefetch / chunk_size_);
    for (Chunk& chunk : chunks_) {
      chunk.entries.resize(chunk_size_);
      chunk.samples.reserve(order_.largest_batch());
      for (Entry& entry : chunk.entries) entry.batch = pool_->take();
    }
  }

  void start() {
    stopping_ = false;
    claimed_ = released_ = taken_ = 0;
    first_ = {epoch_, position_};
    for (Chunk& chunk : chunks_) {
      chunk.filled = false;
      for (Entry& entry : chunk.entries) entry.error = nullptr;
    }
    try {
      for (int i = 0; i < threads_; ++i) workers_.emplace_back([this] { work(); });
    } catch (const std::system_error& error) {
      stop_and_join();
      throw Error("cannot start {} loader threads: {}", threads_, error.what());
    }
  }

  void stop_and_join() {
    stop();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
  }

  // Each worker claims the next chunk of the ring that has been taken, and fills it.
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      room_.wait(lock, [&] { return stopping_ || claimed_ < released_ + chunks_.size(); });
      if (stopping_) return;
      const uint64_t number = claimed_++;
      Chunk& chunk = chunks_[number % chunks_.size()];
      lock.unlock();
      fill(number * chunk_size_, chunk);
      lock.lock();
      chunk.filled = true;
      if (number == released_) filled_.notify_one();
    }
  }

  // The chunk's entries, of which the first is `batch` batches after the place where we started.
  // Ends at an error, which the caller never gets past.
  void fill(uint64_t batch, Chunk& chunk) {
    for (Entry& entry : chunk.entries) {
      if (stopping_) return;
      fill_entry(batch++, entry, chunk.samples);
      if (entry.error) return;
    }
  }

  void fill_entry(uint64_t batch, Entry& entry, std::vector<uint64_t>& samples) {
    const uint64_t place = first_.position + batch;
    try {
      order_.batch(first_.epoch + place / order_.batches(), place % order_.batches(), samples);
      source_.fill(samples, *entry.batch);
    } catch (...) {
      entry.error = std::current_exception();
    }
  }

  Entry& fill_entry_here() {
    if (stopping_) throw_stopped();
    Entry& entry = chunks_[0].entries[0];
    if (!entry.error) fill_entry(taken_, entry, chunks_[0].samples);
    return entry;
  }

  Entry& wait_for_entry() {
    const uint64_t number = taken_ / chunk_size_;
    Chunk& chunk = chunks_[number % chunks_.size()];
    if (taken_ % chunk_size_ == 0 || stopping_) wait_for_chunk(number, chunk);
    return chunk.entries[taken_ % chunk_size_];
  }

  // Gives the chunk before this one to the workers and waits for this one.
  void wait_for_chunk(uint64_t number, Chunk& chunk) {
    std::unique_lock lock(mutex_);
    if (number > released_) {
      chunks_[released_ % chunks_.size()].filled = false;
      ++released_;
      room_.notify_one();
    }
    constexpr auto kLook = std::chrono::milliseconds(200);  // a slow disk must not hold up a stop
    while (!filled_.wait_for(lock, kLook, [&] { return stopping_ || chunk.filled; }))
      throw_if_stopped_meanwhile();
    if (stopping_) throw_stopped();
  }

  [[noreturn]] static void throw_stopped() { throw Error("the loader was stopped"); }

  const Source source_;
  OrderType order_;
  const int threads_;
  std::shared_ptr<BatchPool<Batch>> pool_ = std::make_shared<BatchPool<Batch>>();
  uint64_t chunk_size_ = 1;
  std::vector<Chunk> chunks_;  // ring: chunk number c is chunks_[c % size]

  // The caller's side.
  uint64_t epoch_ = 0;
  uint64_t position_ = 0;
  uint64_t taken_ = 0;  // batches since the workers started
  struct {
    uint64_t epoch, position;
  } first_;  // where the workers started

  // Shared; guarded by mutex_, but stopping_ is also looked at without.
  std::mutex mutex_;
  std::condition_variable room_;    // a chunk was released, or stop
  std::condition_variable filled_;  // the chunk that the caller waits for is filled, or stop
  uint64_t claimed_ = 0;            // chunks that workers have taken on
  uint64_t released_ = 0;           // chunks that the caller has done with
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> workers_;
};

// Loader loader(source, settings) is one in plain order.
template <class Source>
Loader(Source, const LoaderSettings&) -> Loader<Source>;

}  // namespace lacuna
