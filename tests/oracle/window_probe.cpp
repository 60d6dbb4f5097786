// What tests/test_windows.py holds against NumPy: every window of a recording, on any rung.
//
//   window_probe write RECORDING SEED               a recording whose pixels say where they belong
//   window_probe prepare RECORDING STORE FORM       a store of frames: u8, bf16, f32, chunks
//   window_probe windows RECORDING OUT SETTINGS RUNG [STORE]
//
// The last writes OUT/index.npy [N, 3] (session, segment, t), OUT/stim.npy [N, lags, Y, X] as the
// rung gives it, and of session s counts.s.npy, validity.s.npy and input.s.i.npy. SETTINGS is JSON:
// {"lags", "targets", "step", "inputs": [{"field", "lags", "first"}], "transforms", "units",
// "split", "part", "rows"}; the last widens lags for a run of so many target rows.
#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "lacuna/ladder/frame_store.h"
#include "lacuna/ladder/recording_source.h"
#include "lacuna/recording/toy_recording.h"
#include "lacuna/recording/trial_split.h"
#include "lacuna/store/npy.h"

namespace lacuna {
namespace {

constexpr uint64_t kBatch = 37;

WindowSettings settings_of(const Json& json) {
  WindowSettings settings;
  settings.stimulus.lags = json.value("lags", uint64_t(33));
  settings.target_rows = json.value("targets", uint64_t(1));
  settings.step = json.value("step", uint64_t(1));
  for (const Json& input : json.value("inputs", Json::array()))
    settings.inputs.push_back({input.at("field"), input.at("lags"), input.at("first")});
  settings.transforms = json.value("transforms", Json::object());
  settings.units = json.value("units", std::vector<std::string>());
  if (json.contains("rows")) return with_target_rows(settings, json.at("rows").get<uint64_t>());
  return settings;
}

// What batches bring of one session, joined.
struct Joined {
  uint64_t windows = 0, units = 0;
  std::vector<float> counts;
  std::vector<uint8_t> validity;
  std::vector<std::vector<float>> inputs;

  void add(const SessionPart& part) {
    windows += part.windows;
    units = part.units;
    counts.insert(counts.end(), part.counts.begin(), part.counts.end());
    validity.insert(validity.end(), part.validity.begin(), part.validity.end());
    inputs.resize(part.inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i)
      inputs[i].insert(inputs[i].end(), part.inputs[i].begin(), part.inputs[i].end());
  }
};

void write_windows(const Recording& recording, const fs::path& out, const Json& json,
                   const std::string& rung, const fs::path& store) {
  Windows windows(recording, settings_of(json));
  if (json.contains("split"))
    windows = windows.of_part(recording.split(json.at("split").get<std::string>()),
                              json.at("part").get<std::string>());
  FramesOptions options = {.rung = recording_rung_from_name(rung), .store = store};
  options.hot_bytes = recording.bytes() / 2;
  const RecordingSource source(windows, Frames(recording, options), {.batch = kBatch});
  std::vector<int64_t> index;
  std::vector<Joined> sessions(recording.sessions().size());
  fs::create_directories(out);
  RecordingBatch batch;
  std::unique_ptr<NpyWriter> stim;
  for (uint64_t begin = 0; begin < source.size(); begin += kBatch) {
    std::vector<uint64_t> places;
    for (uint64_t i = begin; i < std::min(begin + kBatch, source.size()); ++i) places.push_back(i);
    source.fill(places, batch);
    for (const uint64_t window : batch.windows) {
      const Window at = windows.at(window);
      index.insert(index.end(), {int64_t(at.session), int64_t(at.segment), int64_t(at.t)});
    }
    for (const SessionPart& part : batch.parts) sessions[part.session].add(part);
    const Shape row(batch.stimulus_shape.begin() + 1, batch.stimulus_shape.end());
    if (!stim) stim = std::make_unique<NpyWriter>(out / "stim.npy", batch.stimulus_dtype, row);
    uint64_t bytes = item_size(batch.stimulus_dtype);
    for (const uint64_t extent : batch.stimulus_shape) bytes *= extent;
    stim->append(std::span<const std::byte>(batch.stimulus, bytes));
  }
  stim->close();
  const uint64_t count = index.size() / 3, targets = windows.settings().target_rows;
  write_npy(out / "index.npy", Array::from(std::move(index), {count, 3}));
  for (size_t s = 0; s < sessions.size(); ++s) {
    Joined& one = sessions[s];
    const std::string end = fmt::format(".{}.npy", s);
    const Shape shape = {one.windows, targets, one.units};
    write_npy(out / ("counts" + end), Array::from(std::move(one.counts), shape));
    write_npy(out / ("validity" + end), Array::from(std::move(one.validity), shape));
    for (size_t i = 0; i < one.inputs.size(); ++i)
      write_npy(out / fmt::format("input.{}.{}.npy", s, i), Array::from(std::move(one.inputs[i])));
  }
}

int run(const std::vector<std::string>& words) {
  const std::string& what = words.at(0);
  if (what == "write") {
    const Recording recording =
        write_toy_recording(words.at(1), std::stoull(words.at(2)), {.frames = 600});
    add_split(words.at(1), draw_trial_split(recording, "trials", {}));
  } else if (what == "prepare") {
    FrameStoreSettings settings;
    settings.form = words.at(3) == "bf16"  ? Form::bf16
                    : words.at(3) == "f32" ? Form::f32
                    : words.at(3) == "u8"  ? Form::u8
                                           : Form::chunks;
    settings.rows_per_chunk = 9;
    prepare_frames(Recording::open(words.at(1)), settings, words.at(2), {});
  } else {
    write_windows(Recording::open(words.at(1)), words.at(2), parse_json(words.at(3), "settings"),
                  words.at(4), words.size() > 5 ? words[5] : "");
  }
  return 0;
}

}  // namespace
}  // namespace lacuna

int main(int argc, char** argv) {
  try {
    return lacuna::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
