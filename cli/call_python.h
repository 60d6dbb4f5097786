// Functions of the user's that transforms call (`python: FILE.py:FUNCTION`), run by a Python beside
// the program.
#pragma once

#include <string>

#include "lacuna/core/system/file.h"
#include "lacuna/recording/transforms/transforms.h"

namespace lacuna::cli {

// beside: arrays are handed over in files of a folder beside it, which is gone afterwards. python:
// which to start; empty: LACUNA_PYTHON, else python3.
PythonCall call_python(const fs::path& beside, const std::string& python);

}  // namespace lacuna::cli
