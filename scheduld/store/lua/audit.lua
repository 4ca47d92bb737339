#!lua flags=allow-oom
-- Finds hashes without an index entry and entries without a hash; mends what was named before.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7..] tasks  hashes of the tasks
-- ARGV[7] mend   '1': make the broken ones dead with a reason (the caller saw them broken twice)
-- ARGV[8] count  how many ids follow
--
-- Returns {0, now µs, codes}: 0 whole, 1 hash without index, 2 index without hash
--         {-1, now µs} too late
--
-- @include type guard events live load pack ends
local mend, count = ARGV[7], tonumber(ARGV[8])

local function fault_of(id, key)
  local indexed = is_indexed(id)
  local kind = redis.call('TYPE', key).ok
  if kind == 'hash' then
    return indexed and 0 or 1
  end
  -- A dead entry whose key is of another type was told already, and has no hash to keep.
  return indexed and kind == 'none' and 2 or 0
end

local codes = {}
for index = 1, count do
  local id = ARGV[8 + index]
  local fault = fault_of(id, KEYS[6 + index])
  codes[index] = fault
  if mend == '1' and fault == 1 then
    bury(id, '{"kind":"no_index","message":"the hash was in no index"}', 'no_index: in no index')
  elseif mend == '1' and fault == 2 then
    bury(id, '{"kind":"no_hash","message":"the id was in an index without a hash"}',
      'no_hash: in an index without a hash')
  end
end
write_events()
return {0, now_us, codes}
