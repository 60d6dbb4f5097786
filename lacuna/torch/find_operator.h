// An operator by its name, for calls through torch's dispatcher:
//   static const auto op = find_operator<bool()>("lacuna::has_cuda");
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace lacuna {

template <class Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace lacuna
