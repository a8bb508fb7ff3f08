-- The transaction layer of Contiguitas-HW (docs/src/internals/contiguitas-hw.md), written by hand for Rumur:
-- two cores, a device, a page of one line that moves once from frame 0 to frame 1. No symmetry.
-- Rumur and `prairie migrate check --without symmetry` have to count the same states, and a mistake
-- built in here has to be found: tests/rumur.rs does both.
const
  CORES: 2;
type
  core_t: 1 .. CORES;
  frame_t: 0 .. 1;
  name_t: 0 .. 2; -- a frame, or 2 for none
  access_t: enum { INVALID, SHARED, MODIFIED };
  kind_t: enum { NOTHING, READ, WRITE };
  ack_t: enum { NOT_BEGUN, DRAINING, DONE };
  stage_t: enum { IDLE, MIGRATING, MOVED };
var
  -- Whether a copy is the last write is all that is known of its data.
  access: array [core_t] of array [frame_t] of access_t;
  fresh: array [core_t] of array [frame_t] of boolean;
  tlb: array [core_t] of frame_t;
  asks: array [core_t] of kind_t;
  asked: array [core_t] of name_t;
  victim: array [core_t] of name_t;
  victim_fresh: array [core_t] of boolean;
  ack: array [core_t] of ack_t;
  io_tlb: frame_t;
  io_read: name_t;
  io_post: name_t;
  io_ack: ack_t;
  memory: array [frame_t] of boolean;
  stage: stage_t;
  table: frame_t;
  io_table: frame_t;
  started: boolean; -- the copy may begin
  ptr: 0 .. 1;
  holds: boolean; -- the engine has read the line
  held: boolean;

-- While the entry lives.
function entry(): boolean; begin return stage = MIGRATING; end;

function home(f: frame_t): frame_t; begin
  if entry() then
    if ptr = 1 then return 1; else return 0; end;
  end;
  return f;
end;

-- Every copy in the page's frames is older now.
procedure age(); begin
  for f: frame_t do
    if (f = 0 & stage != MOVED) | (f = 1 & stage != IDLE) then
      for c: core_t do
        fresh[c][f] := false;
        if victim[c] = f then victim_fresh[c] := false; end;
      end;
      memory[f] := false;
    end;
  end;
  held := false;
end;

procedure absorb(f: frame_t; h: frame_t); begin
  for c: core_t do
    if victim[c] = f then
      memory[h] := victim_fresh[c]; victim[c] := 2; victim_fresh[c] := false;
    end;
  end;
end;

procedure recall(f: frame_t; h: frame_t); begin
  for c: core_t do
    if access[c][f] = MODIFIED then memory[h] := fresh[c][f]; end;
    access[c][f] := INVALID; fresh[c][f] := false;
  end;
  absorb(f, h);
end;

procedure downgrade(f: frame_t; h: frame_t); begin
  for c: core_t do
    if access[c][f] = MODIFIED then
      memory[h] := fresh[c][f]; access[c][f] := SHARED;
    end;
  end;
  absorb(f, h);
end;

procedure write_held(); begin
  memory[1] := held; ptr := 1; holds := false; held := false;
end;

function all_done(): boolean; begin
  return table = 1 & io_table = 1 & io_ack = DONE & forall c: core_t do ack[c] = DONE end;
end;

startstate begin
  for c: core_t do
    for f: frame_t do access[c][f] := INVALID; fresh[c][f] := false; end;
    tlb[c] := 0; asks[c] := NOTHING; asked[c] := 2;
    victim[c] := 2; victim_fresh[c] := false; ack[c] := NOT_BEGUN;
  end;
  io_tlb := 0; io_read := 2; io_post := 2; io_ack := NOT_BEGUN;
  memory[0] := true; memory[1] := false;
  stage := IDLE; table := 0; io_table := 0;
  started := false; ptr := 0; holds := false; held := false;
end;

ruleset c: core_t do
  rule "load misses" access[c][tlb[c]] = INVALID & asks[c] = NOTHING ==> begin
    asks[c] := READ; asked[c] := tlb[c];
  end;
  rule "store misses" access[c][tlb[c]] != MODIFIED & asks[c] = NOTHING ==> begin
    asks[c] := WRITE; asked[c] := tlb[c];
  end;
  rule "store hits" access[c][tlb[c]] = MODIFIED ==>
  var f: frame_t;
  begin
    f := tlb[c];
    assert fresh[c][f] "a store merges with the last value";
    age(); fresh[c][f] := true;
  end;
  rule "serve" asks[c] != NOTHING ==>
  var f: frame_t; h: frame_t; kind: kind_t;
  begin
    f := asked[c]; kind := asks[c]; asks[c] := NOTHING; asked[c] := 2;
    if holds then write_held(); end;
    h := home(f);
    if entry() then recall(1 - f, h); end;
    if kind = READ then downgrade(f, h); else recall(f, h); end;
    assert memory[h] "a miss is served the last value";
    if kind = READ then
      access[c][f] := SHARED; fresh[c][f] := memory[h];
    else
      access[c][f] := MODIFIED; age(); fresh[c][f] := true;
    end;
  end;
  ruleset f: frame_t do
    rule "drop" access[c][f] = SHARED ==> begin
      access[c][f] := INVALID; fresh[c][f] := false;
    end;
    rule "evict" access[c][f] = MODIFIED & victim[c] = 2 ==> begin
      victim[c] := f; victim_fresh[c] := fresh[c][f];
      access[c][f] := INVALID; fresh[c][f] := false;
    end;
  end;
  rule "victim arrives" victim[c] != 2 ==>
  var f: frame_t;
  begin
    f := victim[c];
    memory[home(f)] := victim_fresh[c]; victim[c] := 2; victim_fresh[c] := false;
  end;
  rule "evict translation" tlb[c] != table ==> begin tlb[c] := table; end;
  rule "invalidate" stage = MIGRATING & table = 1 & ack[c] = NOT_BEGUN ==> begin
    tlb[c] := table;
    if asked[c] = 0 then ack[c] := DRAINING; else ack[c] := DONE; end;
  end;
  rule "drained" ack[c] = DRAINING & asked[c] != 0 ==> begin ack[c] := DONE; end;
end;

rule "DMA read" io_read = 2 ==> begin io_read := io_tlb; end;
rule "DMA write" io_post = 2 ==> begin io_post := io_tlb; end;
rule "serve DMA read" io_read != 2 ==>
var f: frame_t; h: frame_t;
begin
  f := io_read; io_read := 2;
  if holds then write_held(); end;
  h := home(f);
  recall(f, h);
  if entry() then recall(1 - f, h); end;
  assert memory[h] "a device reads the last value";
end;
rule "serve DMA write" io_post != 2 ==>
var f: frame_t; h: frame_t;
begin
  f := io_post; io_post := 2;
  if holds then write_held(); end;
  h := home(f);
  recall(f, h);
  if entry() then recall(1 - f, h); end;
  age(); memory[h] := true;
end;
rule "IOMMU evicts" io_tlb != io_table ==> begin io_tlb := io_table; end;
rule "IOMMU invalidates" stage = MIGRATING & io_table = 1 & io_ack = NOT_BEGUN ==> begin
  io_tlb := 1;
  if io_read = 0 | io_post = 0 then io_ack := DRAINING; else io_ack := DONE; end;
end;
rule "IOMMU drained" io_ack = DRAINING & io_read != 0 & io_post != 0 ==> begin
  io_ack := DONE;
end;

rule "copy: read" entry() & started & ptr = 0 & !holds ==> begin
  recall(0, 0); recall(1, 0);
  holds := true; held := memory[0];
end;
rule "copy: write" holds ==> begin write_held(); end;

rule "Migrate" stage = IDLE ==> begin
  stage := MIGRATING;
  for c: core_t do
    access[c][1] := INVALID; fresh[c][1] := false;
    if victim[c] = 1 then victim[c] := 2; victim_fresh[c] := false; end;
  end;
end;
rule "page table" stage = MIGRATING & table = 0 ==> begin table := 1; end;
rule "IOMMU table" stage = MIGRATING & io_table = 0 ==> begin io_table := 1; end;
rule "the copy may begin" stage = MIGRATING & !started & all_done() ==> begin
  started := true;
end;
rule "Clear" stage = MIGRATING & started & ptr = 1 & all_done() ==> begin
  for c: core_t do
    ack[c] := NOT_BEGUN;
    fresh[c][0] := false;
    if victim[c] = 0 then victim_fresh[c] := false; end;
  end;
  io_ack := NOT_BEGUN;
  memory[0] := false;
  stage := MOVED; started := false; ptr := 0;
end;

invariant "a line is cached privately under one name"
  stage = MIGRATING ->
    !(exists c: core_t do access[c][0] != INVALID end
      & exists c: core_t do access[c][1] != INVALID end);
invariant "nothing reaches the source that was left"
  stage = MOVED ->
    io_tlb != 0 & io_read != 0 & io_post != 0
    & forall c: core_t do
        access[c][0] = INVALID & tlb[c] != 0 & asked[c] != 0 & victim[c] != 0
      end;
