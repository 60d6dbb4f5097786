// Names what a thread is doing, for whoever measures it.
//
//   const Scope scope("aggregation");
//
// Costs one load of a pointer while nobody listens. Scopes may nest: time belongs to the innermost.
// One listener at a time; it is told by the thread that entered the scope, so it must be safe to
// call from several.
#pragma once

#include <atomic>

namespace lacuna {

class ScopeListener {
 public:
  virtual ~ScopeListener() = default;
  virtual void enter(const char* name) = 0;  // a literal
  virtual void leave() = 0;
};

// Null: nobody. Must not change while a scope is open.
inline std::atomic<ScopeListener*> scope_listener = nullptr;

class Scope {
 public:
  explicit Scope(const char* name) : listener_(scope_listener.load(std::memory_order_relaxed)) {
    if (listener_) listener_->enter(name);
  }
  ~Scope() {
    if (listener_) listener_->leave();
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  ScopeListener* listener_;
};

}  // namespace lacuna
