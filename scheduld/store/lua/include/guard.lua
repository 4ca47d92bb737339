-- A wrong type of key must fail before the first write: scripts do not roll back.
local sizes = {}
for _, index in ipairs({due, leased, done, dead}) do
  sizes[index] = redis.call('ZCARD', index)
end
redis.call('HLEN', meta)
redis.call('XLEN', events)

-- The scores of ids in an index; nothing is asked of one that was empty when the call began.
local function scores_of(index, ids)
  if #ids == 0 or sizes[index] == 0 then
    return {}
  end
  return redis.call('ZMSCORE', index, unpack(ids))
end
