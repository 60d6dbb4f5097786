// A recording with one damaged file (damaged.h).
#include "lacuna/recording/recording.h"

#include "fuzz/damaged.h"
#include "lacuna/recording/recording_summary.h"
#include "lacuna/recording/toy_recording.h"
#include "lacuna/recording/trial_split.h"
#include "lacuna/recording/window_fields.h"

using namespace lacuna;

namespace {

fs::path write_whole(const fs::path& path) {
  const Recording recording = write_toy_recording(path, 1, {.sessions = 2, .frames = 60});
  lacuna::add_split(path, draw_trial_split(recording, "trials", {.fractions = {0.5, 0.5, 0}}));
  return path;
}

// Everything that walks through a recording which nobody has checked yet.
void use(const Recording& recording) {
  fuzz::reads([&] { summarise(recording); });
  fuzz::reads([&] { draw_trial_split(recording, "new", {}); });
  fuzz::reads([&] {
    const Windows windows(recording, {.stimulus = {.field = "stim", .lags = 3},
                                      .inputs = {{.field = "behavior", .lags = 2}}});
    WindowBatch batch;
    for (uint64_t i = 0; i < std::min<uint64_t>(windows.size(), 40); ++i)
      batch.windows.push_back(i);
    WindowFields(windows).fill(batch);
    windows.of_part(recording.split("trials"), "train");
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::MemoryDirectory directory;
  static const fuzz::Damaged recording(write_whole(directory / "recording"));
  recording.read(data, size, [&] {
    fuzz::reads([&] { use(Recording::open(recording.path())); });
    fuzz::reads([&] { Recording::open(recording.path()).check(Progress::none()); });
  });
  return 0;
}
