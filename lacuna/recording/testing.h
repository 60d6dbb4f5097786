// For tests only: the toy recording, and what all tests share.
#pragma once

#include "lacuna/core/testing.h"
#include "lacuna/recording/toy_recording.h"
