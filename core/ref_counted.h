// SPDX-License-Identifier: Apache-2.0
// Intrusive reference counting: one word in the object and no control block, so that taking a
// reference on a hot path allocates nothing.
#ifndef KEEL_CORE_REF_COUNTED_H_
#define KEEL_CORE_REF_COUNTED_H_

#include <atomic>
#include <cstdint>
#include <utility>

namespace keel {

// Starts with one reference, owned by make_ref (or Ref::adopt). Thread-safe.
class RefCounted {
 public:
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void retain() const { references_.fetch_add(1, std::memory_order_relaxed); }
  // Takes a reference; false if the last one is already gone.
  bool try_retain() const {
    uint32_t count = references_.load(std::memory_order_relaxed);
    while (count != 0) {
      if (references_.compare_exchange_weak(count, count + 1, std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }
  void release() const {
    if (drop()) const_cast<RefCounted*>(this)->dispose();
  }
  // Drops a reference. If true, the reference was the last, and the caller does the work of
  // dispose().
  bool drop() const { return references_.fetch_sub(1, std::memory_order_acq_rel) == 1; }

 protected:
  RefCounted() = default;
  virtual ~RefCounted() = default;
  // Called when the last reference is gone. Pooled objects return to their pool instead, and call
  // revive() before the next use.
  virtual void dispose() { delete this; }
  void revive() { references_.store(1, std::memory_order_relaxed); }

 private:
  mutable std::atomic<uint32_t> references_{1};
};

template <typename T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  explicit Ref(T* object) : object_(object) {
    if (object_ != nullptr) object_->retain();
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) object_->release();
  }

  // Takes over the caller's reference.
  static Ref adopt(T* object) {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  // Passes the reference to the caller.
  T* detach() { return std::exchange(object_, nullptr); }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  bool operator==(const Ref& other) const = default;

 private:
  T* object_ = nullptr;
};

template <typename T, typename... Arguments>
Ref<T> make_ref(Arguments&&... arguments) {
  return Ref<T>::adopt(new T(std::forward<Arguments>(arguments)...));
}

}  // namespace keel

#endif  // KEEL_CORE_REF_COUNTED_H_
