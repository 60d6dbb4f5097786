#include "lacuna/core/progress.h"

namespace lacuna {

Progress& Progress::none() {
  static Progress silent;
  return silent;
}

}  // namespace lacuna
