-- A task as it is stored: {due, lease end, finished, died (ms or ''), hash as a flat list, type
-- of the key}.
local function row_of(id, key)
  local kind = redis.call('TYPE', key).ok
  return {
    redis.call('ZSCORE', due, id) or '',
    redis.call('ZSCORE', leased, id) or '',
    redis.call('ZSCORE', done, id) or '',
    redis.call('ZSCORE', dead, id) or '',
    kind == 'hash' and redis.call('HGETALL', key) or {},
    kind,
  }
end
