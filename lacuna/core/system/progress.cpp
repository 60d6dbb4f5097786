#include "lacuna/core/system/progress.h"

namespace lacuna {

Progress& Progress::none() {
  static Progress silent;
  return silent;
}

}  // namespace lacuna
