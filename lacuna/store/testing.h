// For tests only.
#pragma once

#include "lacuna/core/testing.h"
