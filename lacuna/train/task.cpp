#include "lacuna/train/task.h"

#include "lacuna/train/screen_task.h"

namespace lacuna {

std::unique_ptr<Task> open_task(const OpenTask& request) { return open_screen_task(request); }

}  // namespace lacuna
