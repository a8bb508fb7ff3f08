/* German's cache protocol with data, as checker/german.rs has it, for SPIN. 0 stands for no
   request, order or value; requests: 1 shared, 2 exclusive; orders: 1 invalidate, 2 and 3
   grants; lines: 0 invalid, 1 shared, 2 exclusive. */
#define N 4

byte line[N], value[N], request[N], order[N], order_value[N], ack_value[N];
bit acked[N], to_invalidate[N], sharer[N];
bit exclusive;
byte serving, requester, memory, last_written;
hidden byte j;

inline check(i) {
    assert(line[i] == 0 || value[i] == last_written);
    assert(exclusive || memory == last_written);
    assert(line[i] != 2 ||
        ((i == 0 || line[0] == 0) && (i == 1 || line[1] == 0) &&
         (i == 2 || line[2] == 0) && (i == 3 || line[3] == 0)))
}

#define cache(i) \
    :: d_step { line[i] == 2 -> value[i] = 1; last_written = 1; check(i) } \
    :: d_step { line[i] == 2 -> value[i] = 2; last_written = 2; check(i) } \
    :: d_step { request[i] == 0 && line[i] == 0 -> request[i] = 1 } \
    :: d_step { request[i] == 0 && line[i] != 2 -> request[i] = 2 } \
    :: d_step { serving == 0 && request[i] != 0 -> \
           serving = request[i]; requester = i; request[i] = 0; \
           to_invalidate[0] = sharer[0]; to_invalidate[1] = sharer[1]; \
           to_invalidate[2] = sharer[2]; to_invalidate[3] = sharer[3] } \
    :: d_step { order[i] == 0 && to_invalidate[i] && \
           (serving == 2 || (serving == 1 && exclusive)) -> \
           order[i] = 1; to_invalidate[i] = 0 } \
    :: d_step { order[i] == 1 && !acked[i] -> \
           order[i] = 0; acked[i] = 1; \
           if :: line[i] == 2 -> ack_value[i] = value[i] :: else fi; \
           line[i] = 0; value[i] = 0 } \
    :: d_step { acked[i] && serving != 0 -> \
           acked[i] = 0; sharer[i] = 0; \
           if :: exclusive -> exclusive = 0; memory = ack_value[i] :: else fi; \
           ack_value[i] = 0; check(i) } \
    :: d_step { serving == 1 && !exclusive && requester == i && order[i] == 0 -> \
           order[i] = 2; order_value[i] = memory; sharer[i] = 1; \
           serving = 0; requester = 0 } \
    :: d_step { serving == 2 && !exclusive && requester == i && order[i] == 0 && \
           !sharer[0] && !sharer[1] && !sharer[2] && !sharer[3] -> \
           order[i] = 3; order_value[i] = memory; sharer[i] = 1; exclusive = 1; \
           serving = 0; requester = 0 } \
    :: d_step { order[i] >= 2 -> \
           line[i] = order[i] - 1; value[i] = order_value[i]; \
           order[i] = 0; order_value[i] = 0; check(i) }

init {
    d_step { memory = 1; last_written = 1 }
    do
    cache(0)
    cache(1)
    cache(2)
    cache(3)
    od
}
