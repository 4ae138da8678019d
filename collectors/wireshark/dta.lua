-- Wireshark dissector of DTA (Direct Telemetry Access), in the formats of Telemark
-- (docs/reference/dta.md) and of the prototype.
--   tshark -X lua_script:dta.lua -r capture.pcap -V
-- Or copy this file to a folder of plugins (Help, About Wireshark, Folders).

local dta = Proto("dta", "Direct Telemetry Access")

dta.prefs.port = Pref.uint("UDP port", 40042, "Destination port of reports in Telemark's format; 0: none")
dta.prefs.prototype_port = Pref.uint("UDP port of the prototype", 40040, "Destination port of reports of the prototype; 0: none")
dta.prefs.nack_port = Pref.uint("UDP port of NACKs", 40044, "Destination port of NACKs in both formats; 0: none")
dta.prefs.tracked = Pref.bool("The prototype tracks losses", true, "The base header of the prototype has a sequence number")

local opcodes = {
  [0x01] = "Key-Write", [0x02] = "Append", [0x03] = "Key-Increment", [0x04] = "Postcarding",
  [0x05] = "Sketch-Merge", [0x80] = "NACK",
}
local fields = {
  version = ProtoField.uint8("dta.version", "Version", base.DEC, nil, 0xf0),
  immediate = ProtoField.bool("dta.immediate", "Immediate", 8, nil, 0x08),
  retransmittable = ProtoField.bool("dta.retransmittable", "Retransmittable", 8, nil, 0x04),
  opcode = ProtoField.uint8("dta.opcode", "Opcode", base.HEX, opcodes),
  reporter = ProtoField.uint16("dta.reporter", "Reporter"),
  sequence = ProtoField.uint32("dta.sequence", "Sequence number"),
  short_sequence = ProtoField.uint8("dta.prototype.seqnum", "Sequence number"),
  short_immediate = ProtoField.bool("dta.prototype.immediate", "Immediate", 8, nil, 0x80),
  short_retransmittable = ProtoField.bool("dta.prototype.retransmittable", "Retransmittable", 8, nil, 0x40),
  nack = ProtoField.bool("dta.prototype.nack", "NACK", 8, nil, 0x80),
  redundancy = ProtoField.uint8("dta.redundancy", "Redundancy"),
  words = ProtoField.uint8("dta.words", "Number of data words"),
  key = ProtoField.bytes("dta.key", "Key"),
  data = ProtoField.uint32("dta.data", "Data", base.HEX),
  list = ProtoField.uint32("dta.list", "List"),
  addend = ProtoField.uint64("dta.addend", "Addend"),
  hop = ProtoField.uint8("dta.hop", "Hop"),
  hops = ProtoField.uint8("dta.hops", "Number of hops of the path"),
  value = ProtoField.uint32("dta.value", "Value", base.HEX),
  sketch = ProtoField.uint16("dta.sketch", "Sketch"),
  column = ProtoField.uint16("dta.column", "Column"),
  counter = ProtoField.uint32("dta.counter", "Counter"),
  missing = ProtoField.uint32("dta.missing", "Number of missing reports"),
}
for _, each in pairs(fields) do
  dta.fields[#dta.fields + 1] = each
end
local wrong = ProtoExpert.new("dta.malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR)
local cut = ProtoExpert.new("dta.cut", "Truncated by the capture", expert.group.MALFORMED, expert.severity.NOTE)
dta.experts = { wrong, cut }

-- Fields of each report in order: name (nil: reserved), size in bytes, and minimum and maximum if
-- the values are limited. `words` are the numbers of words that the last field may have.
local by_opcode = {
  [0x01] = { { "redundancy", 1, 1, 8 }, { "words", 1 }, { nil, 2 }, { "key", 16 }, { "data", 4 }, words = { 1, 3, 7 } },
  [0x02] = { { "list", 4 }, { "data", 4 }, words = { 1 } },
  [0x03] = { { "redundancy", 1, 1, 8 }, { nil, 3 }, { "key", 16 }, { "addend", 8 } },
  [0x04] = { { "redundancy", 1, 1, 8 }, { "hop", 1, 0, 4 }, { "hops", 1, 0, 5 }, { nil, 1 }, { "key", 16 }, { "value", 4 } },
  [0x05] = { { "sketch", 2 }, { "column", 2 }, { "counter", 4 }, words = { 4 } },
  [0x80] = { { "missing", 4 } },
}
local prototypes = {
  [0x01] = { { "redundancy", 1, 1, 8 }, { "key", 4 }, { "data", 4 }, words = { 1, 3, 7 } },
  [0x02] = by_opcode[0x02],
  [0x03] = { { "redundancy", 1, 1, 8 }, { "key", 4 }, { "addend", 8 } },
  [0x04] = { { "key", 4 }, { "hop", 1, 1, 5 }, { "value", 4 } },
}

-- Returns the size of a report whose last field has `words` words.
local function size_of(report, words)
  local size = 0
  for number, each in ipairs(report) do
    size = size + each[2] * (number == #report and words or 1)
  end
  return size
end

-- Returns how many words the last field has in a report of this size; nothing if the size is
-- invalid.
local function words_of(report, size)
  for _, words in ipairs(report.words or { 1 }) do
    if size_of(report, words) == size then
      return words
    end
  end
end

local function add_fields(tree, report, words, tvb, at)
  for number, each in ipairs(report) do
    for _ = 1, number == #report and words or 1 do
      local range = tvb:range(at, each[2])
      at = at + each[2]
      local item = each[1] and tree:add(fields[each[1]], range)
      if each[3] and (range:uint() < each[3] or range:uint() > each[4]) then
        item:add_proto_expert_info(wrong, string.format("Expected %d to %d", each[3], each[4]))
      elseif each[1] == "words" and range:uint() ~= words then
        item:add_proto_expert_info(wrong, string.format("The report has %d words", words))
      end
    end
  end
end

-- Dissects a report or NACK. `at` is the end of its base header.
local function add_report(tree, known, opcode, tvb, pinfo, at)
  local report = known[opcode]
  pinfo.cols.info = opcodes[opcode] or string.format("opcode 0x%02x", opcode)
  if not report then
    tree:add_proto_expert_info(wrong, "Unknown opcode")
    return
  end
  local words = words_of(report, tvb:reported_len() - at)
  if not words then
    tree:add_proto_expert_info(wrong, "Wrong length for " .. opcodes[opcode])
  elseif tvb:len() < tvb:reported_len() then
    tree:add_proto_expert_info(cut)
  else
    add_fields(tree, report, words, tvb, at)
  end
end

-- Adds a tree for a packet with a base header of this size. Returns nothing if the packet is
-- truncated.
local function begin(tvb, pinfo, tree, header)
  pinfo.cols.protocol = "DTA"
  local branch = tree:add(dta, tvb())
  if tvb:len() >= header then
    return branch
  end
  branch:add_proto_expert_info(tvb:reported_len() < header and wrong or cut)
end

local function dissect_ours(tvb, pinfo, tree)
  local branch = begin(tvb, pinfo, tree, 8)
  if not branch then
    return
  end
  for _, name in ipairs({ "version", "immediate", "retransmittable" }) do
    branch:add(fields[name], tvb(0, 1))
  end
  branch:add(fields.opcode, tvb(1, 1))
  branch:add(fields.reporter, tvb(2, 2))
  branch:add(fields.sequence, tvb(4, 4))
  if tvb(0, 1):bitfield(0, 4) ~= 1 then
    branch:add_proto_expert_info(wrong, "Not version 1")
  else
    add_report(branch, by_opcode, tvb(1, 1):uint(), tvb, pinfo, 8)
  end
end

local function dissect_prototype(tvb, pinfo, tree)
  local flags = dta.prefs.tracked and 2 or 1
  local branch = begin(tvb, pinfo, tree, flags + 1)
  if not branch then
    return
  end
  branch:add(fields.opcode, tvb(0, 1))
  branch:add(fields.short_immediate, tvb(flags, 1))
  if dta.prefs.tracked then
    branch:add(fields.short_sequence, tvb(1, 1))
    branch:add(fields.short_retransmittable, tvb(flags, 1))
  end
  add_report(branch, prototypes, tvb(0, 1):uint(), tvb, pinfo, flags + 1)
end

-- A NACK of the prototype has two bytes and no base header.
local function dissect_nack(tvb, pinfo, tree)
  if tvb:reported_len() ~= 2 then
    dissect_ours(tvb, pinfo, tree)
    return
  end
  local branch = begin(tvb, pinfo, tree, 2)
  if branch then
    branch:add(fields.short_sequence, tvb(0, 1))
    branch:add(fields.nack, tvb(1, 1))
    pinfo.cols.info = tvb(1, 1):bitfield(0, 1) == 1 and "NACK" or "ACK"
  end
end

function dta.dissector(tvb, pinfo, tree)
  if pinfo.dst_port == dta.prefs.nack_port then
    dissect_nack(tvb, pinfo, tree)
  elseif pinfo.dst_port == dta.prefs.prototype_port then
    dissect_prototype(tvb, pinfo, tree)
  else
    dissect_ours(tvb, pinfo, tree)
  end
end

local listening = {}  -- the ports before the preferences changed

local function listen()
  local udp = DissectorTable.get("udp.port")
  for _, port in ipairs(listening) do
    udp:remove(port, dta)
  end
  listening = {}
  for _, name in ipairs({ "port", "prototype_port", "nack_port" }) do
    if dta.prefs[name] > 0 then
      udp:add(dta.prefs[name], dta)
      listening[#listening + 1] = dta.prefs[name]
    end
  end
end

dta.prefs_changed = listen
listen()
