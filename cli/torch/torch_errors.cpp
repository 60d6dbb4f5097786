// What torch says when something goes wrong, in a line.
#include <c10/util/Logging.h>

#include "cli/commands.h"

namespace lacuna::cli {

void shorten_torch_errors() {
  c10::SetStackTraceFetcher([] { return std::string(); });
}

}  // namespace lacuna::cli
