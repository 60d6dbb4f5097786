#include "lacuna/train/task.h"

#include "lacuna/train/screen_task.h"

namespace lacuna {

// recording/recording_task.h, whose headers are not needed here
std::unique_ptr<Task> open_recording_task(const OpenTask& request);

std::unique_ptr<Task> open_task(const OpenTask& request) {
  if (request.config.kind() == DataKind::recording) return open_recording_task(request);
  return open_screen_task(request);
}

}  // namespace lacuna
