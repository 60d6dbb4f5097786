// Names what a thread is doing, so that its time can be measured by name.
//
//   const Scope scope("aggregation");
//
// Costs one load of a pointer while nobody listens. Scopes may nest: time belongs to the innermost.
// Each thread has its own listener, or none, which hears of that thread's scopes only.
//
//   tell_way("mlp: one kernel each way");
//
// says which of several ways was taken, so that a measurement can name it.
#pragma once

namespace lacuna {

class ScopeListener {
 public:
  virtual ~ScopeListener() = default;
  virtual void enter(const char* name) = 0;  // a literal
  virtual void leave() = 0;
  virtual void way(const char*) {}  // a literal
};

// This thread's listener, or null. Must not change while a scope is open.
inline constinit thread_local ScopeListener* scope_listener = nullptr;

inline void tell_way(const char* words) {
  if (scope_listener) scope_listener->way(words);
}

class Scope {
 public:
  explicit Scope(const char* name) : listener_(scope_listener) {
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
