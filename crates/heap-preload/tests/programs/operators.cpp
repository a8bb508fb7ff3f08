// C++'s operators: exceptions, the new-handler, alignments, deletes that know the wrong size.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <new>
#include <string>
#include <thread>
#include <vector>

#define CHECK(condition)                                                        \
    do {                                                                        \
        if (!(condition)) {                                                     \
            std::fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition); \
            std::_Exit(1);                                                      \
        }                                                                       \
    } while (0)

static volatile std::size_t absurd = std::numeric_limits<std::size_t>::max();
static int calls;
struct Own {};

template <class Act> static bool throws_bad_alloc(Act act) {
    try {
        act();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

int main() {
    using std::align_val_t;
    using std::nothrow;
    CHECK(throws_bad_alloc([] { return ::operator new(absurd - 100); }));
    CHECK(throws_bad_alloc([] { return ::operator new[](absurd); }));
    CHECK(throws_bad_alloc([] { return ::operator new(absurd, align_val_t(64)); }));
    CHECK(throws_bad_alloc([] { return ::operator new[](absurd, align_val_t(4096)); }));
    CHECK(::operator new(absurd, nothrow) == nullptr);
    CHECK(::operator new[](absurd, nothrow) == nullptr);
    CHECK(::operator new(absurd, align_val_t(64), nothrow) == nullptr);
    CHECK(::operator new[](absurd, align_val_t(64), nothrow) == nullptr);

    // The handler is called until it gives up, by throwing or by uninstalling itself.
    std::set_new_handler([] {
        if (++calls == 5) std::set_new_handler(nullptr);
    });
    CHECK(throws_bad_alloc([] { return ::operator new(absurd); }) && calls == 5);
    std::set_new_handler([] {
        if (++calls == 10) throw Own();
    });
    bool own = false;
    try {
        ::operator new(absurd);
    } catch (const Own &) {
        own = true;
    }
    CHECK(own && calls == 10);
    std::set_new_handler([] {
        if (++calls == 15) throw std::bad_alloc();
    });
    CHECK(::operator new(absurd, nothrow) == nullptr && calls == 15);
    std::set_new_handler([] {
        if (++calls == 20) throw std::bad_alloc();
    });
    CHECK(::operator new(absurd, align_val_t(64), nothrow) == nullptr && calls == 20);
    std::set_new_handler(nullptr);

    for (std::size_t align = 1; align <= 1 << 22; align *= 2)
        for (std::size_t size : {0, 1, 100, 5000, 300000}) {
            void *p = ::operator new(size, align_val_t(align));
            CHECK(reinterpret_cast<std::uintptr_t>(p) % align == 0);
            ::operator delete(p, size, align_val_t(align));
            p = ::operator new[](size, align_val_t(align), nothrow);
            CHECK(reinterpret_cast<std::uintptr_t>(p) % align == 0);
            ::operator delete[](p, align_val_t(align), nothrow);
        }

    // A base class without virtual destructor passes the wrong size: the heap goes by its own.
    for (int i = 0; i < 1000; i++) {
        void *p = ::operator new(200);
        ::operator delete(p, std::size_t(16));
        p = ::operator new[](300000);
        ::operator delete[](p, std::size_t(8));
        p = ::operator new(0);
        ::operator delete(p, std::size_t(100));
    }
    ::operator delete(nullptr);

    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++)
        threads.emplace_back([t] {
            std::vector<std::string> texts;
            for (int i = 0; i < 20000; i++) texts.push_back(std::string(i % 200, char('a' + t)));
            for (auto &text : texts)
                for (char c : text) CHECK(c == char('a' + t));
        });
    for (auto &thread : threads) thread.join();
}
