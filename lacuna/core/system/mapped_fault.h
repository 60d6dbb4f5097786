// What becomes of a file that is cut short while it is mapped, or of a disk that fails under it.
//
// Touching a mapped page that the file no longer has does not return an error: it raises SIGBUS,
// which ends the process without a message. Mappings are therefore kept in a table, and a handler
// that finds the faulting address there writes one line that names the file, and ends the process
// with exit code 1:
//
//   error: screen/samples/removed.npy: became shorter while it was read (or its disk fails);
//   restore the file and run the command again
//
// A fault elsewhere goes to the handler that was there before, or ends the process as it would have
// without ours. The program installs the handler (cli/program.cpp). Other programs that use the
// library, Python included, keep theirs: nothing is installed unless report_mapped_faults() is
// called.
#pragma once

#include <cstddef>

#include "lacuna/core/system/file.h"

namespace lacuna {

// An entry of the table while this lives; the mapping must live as long. The table has room for
// kMost mappings, and those beyond are left out: their fault names no file. Of long paths the end
// is kept. Any thread may call.
class MappedRange {
 public:
  static constexpr size_t kMost = 4096;

  MappedRange(const void* begin, size_t bytes, const fs::path& path);
  ~MappedRange();
  MappedRange(const MappedRange&) = delete;
  MappedRange& operator=(const MappedRange&) = delete;

 private:
  size_t slot_;
};

// Whether an address lies in a range of the table.
bool is_mapped_range(const void* address);

// From now on SIGBUS in such a range is reported as above. Calling it again changes nothing.
void report_mapped_faults();

}  // namespace lacuna
