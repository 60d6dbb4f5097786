// Event files, as TensorBoard reads them: curves of a run, shown while it runs.
//
//   EventWriter events(run / "tensorboard", step);
//   events.scalar("loss/train", 50, 0.91, unix_seconds());
//   events.flush();
//
// TensorBoard joins all event files of a folder in the order of their names, which begin with the
// time they were made: every start of a run writes a new file. It also says at which step it
// starts, and TensorBoard then forgets what an interrupted run had written from that step on.
//
// A file is records of { length u64, CRC of the length u32, data, CRC of the data u32 }; data is a
// protobuf message `Event`. A file that ends within a record (a killed run) is read up to there.
#pragma once

#include <cstdint>
#include <fstream>
#include <string_view>

#include "lacuna/core/system/file.h"

namespace lacuna {

class EventWriter {
 public:
  // Makes the folder if need be, and in it a new file. first_step: scalars of this run have this
  // step or a later one. Throws Error naming the path.
  explicit EventWriter(const fs::path& folder, int64_t first_step = 0);

  // `wall_time` in seconds since 1970. `tag` names the curve; those with the same words before '/'
  // are shown together.
  void scalar(std::string_view tag, int64_t step, float value, double wall_time);
  // Hands all that was written to the system, so that TensorBoard sees it.
  void flush();

  const fs::path& path() const { return path_; }

 private:
  void write_record(std::string_view data);

  fs::path path_;
  std::ofstream file_;
};

double unix_seconds();

}  // namespace lacuna
