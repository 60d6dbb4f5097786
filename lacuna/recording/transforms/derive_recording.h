// A recording made from another: new fields by transforms, fewer sessions, a lower rate.
//
//   derive_recording(source, "small", {.transforms = {...}, .step = 2}, command);
//
// What does not change is not copied: such fields refer to the source's bytes where they lie
// (Field::place), so that the source must stay. A transform that needs more than a window runs
// here, once.
//
// step k: every k rows of a trial (its remainder is dropped) become one: the stimulus is taken at
// the first, counts are summed (u16 where they were u8), behaviour and other floats are averaged
// (f32), validity is that of all k, trial, stimulus id and time are those of the first. The rate
// becomes rate / k. A field `run`, of role trial, keeps windows from crossing the gaps that the
// coarser clock no longer shows.
//
// Splits of the source come with it, as far as they cover its sessions; with a step, a group of
// rows in several parts is unused. Called again, it adds and renews them. A split that was drawn in
// the derived recording itself stays.
//
// Rows that a result must not be read on, because SOURCE_valid marks a row that it was made of, are
// marked in NAME_valid.
//
// The result is keyed by the source's session, the settings and the version of the transforms, the
// rows of the split that statistics are taken from and the files of Python functions: the same call
// again writes nothing; a session that was added to the source since is added; a session that has
// changed, or other settings, are refused with what to do.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lacuna/recording/recording.h"
#include "lacuna/recording/transforms/transforms.h"

namespace lacuna {

// What is about to be written, for guards (ladder/what_fits.h). Of a function in Python nobody
// knows: it is taken to give f32, as many values as its sources have.
struct DeriveNeed {
  std::vector<uint64_t> session_bytes;  // of each session that is missing
  Shape frame;                          // [Y, X] of a stimulus among it; empty: none
  bool has_floats = false;              // frames that are made are f32

  uint64_t bytes() const;
};

struct DeriveOptions {
  Json transforms = Json::object();        // transforms.h
  std::vector<std::string> sessions = {};  // names; empty: all
  std::vector<std::string> without = {};   // fields to leave out
  uint64_t step = 1;
  PythonCall python = {};
  // Called before anything is written, where anything is to be; may throw.
  std::function<void(const DeriveNeed&)> check_room = {};

  bool takes(const std::string& session) const;
};

struct Derived {
  Recording recording;
  uint64_t written = 0, kept = 0;  // sessions
};

// Throws Error before anything is written where the settings cannot work.
Derived derive_recording(const Recording& source, const fs::path& out, const DeriveOptions& options,
                         const std::string& command, Progress& progress = Progress::none());

}  // namespace lacuna
