-- German's cache protocol with data, as `checker/german.rs` has it, for Rumur.
const
  CACHES: 4;

type
  -- A scalarset would let the checker sort caches by itself; the counts that are compared are
  -- those without symmetry.
  cache_t: 1 .. CACHES;
  data_t: 1 .. 2;
  line_t: enum { INVALID, SHARED, EXCLUSIVE };
  request_t: enum { NO_REQUEST, ASK_SHARED, ASK_EXCLUSIVE };
  order_t: enum { NO_ORDER, INVALIDATE, GRANT_SHARED, GRANT_EXCLUSIVE };

var
  line: array [cache_t] of line_t;
  value: array [cache_t] of data_t;
  request: array [cache_t] of request_t;
  order: array [cache_t] of order_t;
  order_value: array [cache_t] of data_t;
  acked: array [cache_t] of boolean;
  ack_value: array [cache_t] of data_t;
  to_invalidate: array [cache_t] of boolean;
  sharer: array [cache_t] of boolean;
  exclusive: boolean;
  serving: request_t;
  requester: cache_t;
  memory: data_t;
  last_written: data_t;

startstate begin
  for i: cache_t do
    line[i] := INVALID; undefine value[i];
    request[i] := NO_REQUEST;
    order[i] := NO_ORDER; undefine order_value[i];
    acked[i] := false; undefine ack_value[i];
    to_invalidate[i] := false; sharer[i] := false;
  end;
  exclusive := false;
  serving := NO_REQUEST; undefine requester;
  memory := 1; last_written := 1;
end;

ruleset i: cache_t do
  ruleset d: data_t do
    rule "store" line[i] = EXCLUSIVE ==> begin
      value[i] := d; last_written := d;
    end;
  end;
  rule "ask to read" request[i] = NO_REQUEST & line[i] = INVALID ==> begin
    request[i] := ASK_SHARED;
  end;
  rule "ask to write" request[i] = NO_REQUEST & line[i] != EXCLUSIVE ==> begin
    request[i] := ASK_EXCLUSIVE;
  end;
  rule "receive request" serving = NO_REQUEST & request[i] != NO_REQUEST ==> begin
    serving := request[i]; requester := i; request[i] := NO_REQUEST;
    for j: cache_t do to_invalidate[j] := sharer[j]; end;
  end;
  rule "invalidate"
    order[i] = NO_ORDER & to_invalidate[i]
    & (serving = ASK_EXCLUSIVE | serving = ASK_SHARED & exclusive)
  ==> begin
    order[i] := INVALIDATE; to_invalidate[i] := false;
  end;
  rule "acknowledge" order[i] = INVALIDATE & !acked[i] ==> begin
    order[i] := NO_ORDER; acked[i] := true;
    if line[i] = EXCLUSIVE then ack_value[i] := value[i]; end;
    line[i] := INVALID; undefine value[i];
  end;
  rule "receive acknowledgement" acked[i] & serving != NO_REQUEST ==> begin
    acked[i] := false; sharer[i] := false;
    if exclusive then exclusive := false; memory := ack_value[i]; end;
    undefine ack_value[i];
  end;
  rule "grant to read"
    serving = ASK_SHARED & !exclusive & requester = i & order[i] = NO_ORDER
  ==> begin
    order[i] := GRANT_SHARED; order_value[i] := memory; sharer[i] := true;
    serving := NO_REQUEST; undefine requester;
  end;
  rule "grant to write"
    serving = ASK_EXCLUSIVE & !exclusive & requester = i & order[i] = NO_ORDER
    & forall j: cache_t do !sharer[j] end
  ==> begin
    order[i] := GRANT_EXCLUSIVE; order_value[i] := memory; sharer[i] := true;
    exclusive := true; serving := NO_REQUEST; undefine requester;
  end;
  rule "receive grant" order[i] = GRANT_SHARED | order[i] = GRANT_EXCLUSIVE ==> begin
    if order[i] = GRANT_SHARED then line[i] := SHARED; else line[i] := EXCLUSIVE; end;
    value[i] := order_value[i];
    order[i] := NO_ORDER; undefine order_value[i];
  end;
end;

invariant "one may write, or several read"
  forall i: cache_t do forall j: cache_t do
    i != j & line[i] = EXCLUSIVE -> line[j] = INVALID
  end end;

invariant "what can be read is what was written last"
  (!exclusive -> memory = last_written)
  & forall i: cache_t do line[i] != INVALID -> value[i] = last_written end;
