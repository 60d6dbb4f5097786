// What a batch of windows has beside the stimulus: counts, validity and inputs, by session.
//
//   const WindowFields fields(windows);
//   order_by_session(windows, batch.windows);
//   fields.fill(batch);                        // ptr and parts; the stimulus is a rung's work
//
// These fields are small beside the movie, and a cold row of 168 bytes costs 24 times its bytes: so
// they are mapped and stay in memory (the page cache: one copy a host, however many processes),
// bytes() of them. Nothing is read at the start; rows are compared with their checksums the first
// time they are used, a block of 64 KB at a time.
//
// Counts that are not valid and not finite are served as 0: a loss multiplies them by their
// validity.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lacuna/recording/window_batch.h"
#include "lacuna/recording/windows.h"

namespace lacuna {

class WindowFields {
 public:
  explicit WindowFields(const Windows& windows);
  ~WindowFields();
  WindowFields(WindowFields&&) noexcept;
  WindowFields& operator=(WindowFields&&) noexcept;

  // Of all rows of these fields in the sessions that have windows, as stored: what a budget counts.
  uint64_t bytes() const;

  // Fills ptr and parts for batch.windows, which are ordered by session. Vectors of a batch that
  // was filled before are used again. Safe to call from many threads, each with its own batch.
  // Throws Error naming file and rows where bytes have changed.
  void fill(WindowBatch& batch) const;

  // Columns of an input in a session: they may differ between sessions (spike history).
  uint64_t input_columns(size_t input, uint32_t session) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Brings the windows of a batch into the order that a WindowBatch has: by session, within it as
// they were drawn.
void order_by_session(const Windows& windows, std::vector<uint64_t>& batch);

}  // namespace lacuna
