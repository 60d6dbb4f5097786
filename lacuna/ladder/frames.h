// The frames of a recording's stimulus on one rung: the bytes of windows, wherever they lie.
//
//   const Frames frames(recording, {.rung = recording_rung_from_name("disk:u8@worker")});
//   frames.read(session, segment, t, 33, 1, out);  // rows t, t - 1, .., t - 32
//
// Bytes become numbers as (x - 127) / 255, a true division, in f32; bf16 is that, rounded once.
//
// disk:*    one request a window (preadv, newest first straight into `out`, or into a small buffer
//           where it is cast); the system is told not to read ahead. A row is compared with its
//           checksum the first time this process reads it.
// ram:*     one copy a host, shared by all processes of this user (host_copy.h), compared with the
//           checksums when it is loaded.
// tiered    sessions with the largest share drawn a byte are held as ram:u8 while they fit into
//           hot_bytes; the rest is read as disk:u8.
// chunks    a window is decoded from the chunks that it touches, each with its checksum.
// device:resident  nothing is read for a batch: whoever trains loads the movie once, by
//           read_rows(), in the order of resident_row().
//
// Guards: before anything is loaded, what it takes (with `beside_bytes`) is compared with the
// memory that is free, within the cgroup's limit; Error gives both numbers and what would fit.
//
// Copies are cheap and share everything; all functions may be called by several threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lacuna/core/system/progress.h"
#include "lacuna/ladder/recording_rungs.h"
#include "lacuna/recording/recording.h"

namespace lacuna {

struct FramesOptions {
  Rung rung = {Place::disk, Form::u8};
  std::string field = "stim";
  Json view = Json::array();  // ops that are applied when frames are read (frame_view.h)
  // What `lacuna prepare` made, of the rungs that need one (recording_rungs.h); ram:bf16 and
  // ram:f32 load it where it is given. Rungs of u8 have none: they read the recording itself.
  fs::path store = {};
  DType cast = DType::f32;          // @worker: f32 or bf16
  uint64_t hot_bytes = 0;           // tiered: never more than this in memory
  std::vector<double> shares = {};  // tiered: how much each session is drawn; empty: by its length
  std::map<std::string, Rung> rungs = {};  // tiered: of sessions that are to lie on a given one
  std::vector<std::string> sessions = {};  // only these are read; empty: all
  std::vector<std::string> segments = {};  // the same by name, of every session
  uint64_t beside_bytes = 0;               // memory that the caller will take: batches, other ranks
};

// What the numbers of a rung lose of those that were recorded, in words; empty: nothing.
std::string precision_lost(const Recording& recording, const std::string& field, Rung rung);

class Frames {
 public:
  // Throws Error naming session and segment: a field that is missing, is not u8 (on rungs of bytes)
  // or has another frame size than the first; a store that is missing, unfinished or of other
  // data; a rung that does not fit into memory; tiered without hot_bytes.
  Frames(const Recording& recording, const FramesOptions& options,
         Progress& progress = Progress::none());

  Rung rung() const;                 // with the expansion that was chosen
  DType dtype() const;               // of what read() writes
  const Shape& frame_shape() const;  // [Y, X]
  uint64_t frame_bytes() const;      // of what read() writes
  uint64_t held_bytes() const;       // in memory, by all processes of this host together
  uint64_t disk_bytes() const;       // of the files that windows are read from
  const std::string& note() const;   // what a user should know of where they lie; mostly empty

  // Writes `lags` frames to out, [lags, Y, X]: rows t, t - step, t - 2 * step, .. of a segment, all
  // of them within it. Throws Error for a row that differs from its checksum, and for a file that
  // cannot be read.
  void read(uint32_t session, uint32_t segment, uint64_t t, uint64_t lags, uint64_t step,
            std::byte* out) const;

  // Whether frames of a segment can be read: it has the field, and is chosen.
  bool has(uint32_t session, uint32_t segment) const;

  // ---- device:resident
  // All frames of the chosen sessions lie one after another, by session and segment.
  uint64_t resident_rows() const;
  uint64_t resident_row(uint32_t session, uint32_t segment, uint64_t t) const;
  // Rows first .. first + count - 1 of a segment, oldest first, as u8, checked.
  void read_rows(uint32_t session, uint32_t segment, uint64_t first, uint64_t count,
                 std::byte* out) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace lacuna
