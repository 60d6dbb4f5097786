// What `lacuna transform` and `lacuna prepare CONFIG` say of a recording that they wrote.
#pragma once

#include "lacuna/recording/transforms/derive_recording.h"

namespace lacuna::cli {

void print_derived(const Recording& source, const fs::path& out, const DeriveOptions& options,
                   const Derived& made);

}  // namespace lacuna::cli
