/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM contiguitas

#if !defined(_TRACE_CONTIGUITAS_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_CONTIGUITAS_H

#include <linux/tracepoint.h>

/* The resizer decided: what it saw, and what it is going to do. */
TRACE_EVENT(contiguitas_decide,
	TP_PROTO(int nid, const struct contiguitas_view *view, int resize,
		 unsigned long long beyond, unsigned long border),
	TP_ARGS(nid, view, resize, beyond, border),
	TP_STRUCT__entry(
		__field(int, nid)
		__field(unsigned long, size)
		__field(unsigned long, available_unmovable)
		__field(unsigned long, available_movable)
		__field(unsigned long, low_unmovable)
		__field(unsigned long, low_movable)
		__field(unsigned long, high)
		__field(unsigned int, pressure_unmovable)
		__field(unsigned int, pressure_movable)
		__field(int, resize)
		__field(unsigned long, beyond)
		__field(unsigned long, border)
	),
	TP_fast_assign(
		__entry->nid = nid;
		__entry->size = view->size;
		__entry->available_unmovable = view->available[0];
		__entry->available_movable = view->available[1];
		__entry->low_unmovable = view->low[0];
		__entry->low_movable = view->low[1];
		__entry->high = view->high;
		__entry->pressure_unmovable = view->pressure[0];
		__entry->pressure_movable = view->pressure[1];
		__entry->resize = resize;
		__entry->beyond = beyond;
		__entry->border = border;
	),
	TP_printk("node=%d size=%lu available=%lu,%lu low=%lu,%lu high=%lu pressure=%u,%u resize=%s beyond=%lu border=0x%lx",
		  __entry->nid, __entry->size,
		  __entry->available_unmovable, __entry->available_movable,
		  __entry->low_unmovable, __entry->low_movable, __entry->high,
		  __entry->pressure_unmovable, __entry->pressure_movable,
		  __print_symbolic(__entry->resize, { 0, "stay" }, { 1, "grow" },
				   { 2, "shrink" }, { 3, "yield" }),
		  __entry->beyond, __entry->border)
);

/* The border moved, or did not (error). */
TRACE_EVENT(contiguitas_move,
	TP_PROTO(int nid, unsigned long start, unsigned long pages, bool up, int error, u64 took),
	TP_ARGS(nid, start, pages, up, error, took),
	TP_STRUCT__entry(
		__field(int, nid)
		__field(unsigned long, start)
		__field(unsigned long, pages)
		__field(bool, up)
		__field(int, error)
		__field(u64, took)
	),
	TP_fast_assign(
		__entry->nid = nid;
		__entry->start = start;
		__entry->pages = pages;
		__entry->up = up;
		__entry->error = error;
		__entry->took = took;
	),
	TP_printk("node=%d start=0x%lx pages=%lu direction=%s error=%d ns=%llu", __entry->nid,
		  __entry->start, __entry->pages, __entry->up ? "up" : "down", __entry->error,
		  __entry->took)
);

/*
 * The retired pageblocks are now those from "from" up to the border; none if "from" is not
 * below it.
 */
TRACE_EVENT(contiguitas_retire,
	TP_PROTO(int nid, unsigned long from, unsigned long border),
	TP_ARGS(nid, from, border),
	TP_STRUCT__entry(
		__field(int, nid)
		__field(unsigned long, from)
		__field(unsigned long, border)
	),
	TP_fast_assign(
		__entry->nid = nid;
		__entry->from = from;
		__entry->border = border;
	),
	TP_printk("node=%d from=0x%lx border=0x%lx", __entry->nid, __entry->from,
		  __entry->border)
);

/* A request waited for the border. */
TRACE_EVENT(contiguitas_wait,
	TP_PROTO(int nid, unsigned long pages, bool moved, u64 waited),
	TP_ARGS(nid, pages, moved, waited),
	TP_STRUCT__entry(
		__field(int, nid)
		__field(unsigned long, pages)
		__field(bool, moved)
		__field(u64, waited)
	),
	TP_fast_assign(
		__entry->nid = nid;
		__entry->pages = pages;
		__entry->moved = moved;
		__entry->waited = waited;
	),
	TP_printk("node=%d pages=%lu moved=%d ns=%llu", __entry->nid, __entry->pages,
		  __entry->moved, __entry->waited)
);

#endif

#include <trace/define_trace.h>
