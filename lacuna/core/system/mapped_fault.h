// What becomes of a file that is cut short while it is mapped, or of a disk that fails under it.
//
// Touching a mapped page that the file no longer has is no error that a call returns: it is the
// signal SIGBUS, which ends the process without a word. Mappings are therefore kept in a table,
// and a handler that finds the faulting address there writes one line that names the file, and
// ends the process with exit code 1:
//
//   error: screen/samples/removed.npy: became shorter while it was read (or its disk fails);
//   restore the file and run the command again
//
// A fault elsewhere goes to the handler that was there before, or does what it did without one. The
// program installs the handler (cli/main.cpp). Who uses the library from another program, Python
// included, keeps that program's own: nothing is installed unless report_mapped_faults() is called.
#pragma once

#include <cstddef>

#include "lacuna/core/system/file.h"

namespace lacuna {

// Entered in the table as long as this lives; the mapping must be there as long. The table has room
// for kMost mappings at once, and those beyond are not entered: their fault names no file. Of long
// paths the end is kept. Any thread may call.
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

// From now on SIGBUS in such a range is told as above. Calling it again changes nothing.
void report_mapped_faults();

}  // namespace lacuna
